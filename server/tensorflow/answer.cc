// SPDX-License-Identifier: Apache-2.0
#include "server/tensorflow/answer.h"

#include <grpcpp/support/slice.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/xspace/assemble/assembler.h"
#include "common/xspace/wire/wire.h"

namespace jobscope {
namespace {

// Smallest stretch that is referred to: a slice costs about 150 bytes of bookkeeping, so smaller
// stretches are cheaper to copy.
constexpr size_t kMinReferredBytes = 2048;
// Copied bytes are collected in blocks of this size.
constexpr size_t kBlockBytes = 256 * 1024;

// Fields of ProfileResponse and ProfileToolData; all tags fit one byte.
constexpr char kToolDataTag = (6 << 3) | 2;
constexpr char kEmptyTraceTag = (7 << 3) | 0;
constexpr char kXSpaceTag = (8 << 3) | 2;
constexpr char kToolNameTag = (1 << 3) | 2;
constexpr char kToolBytesTag = (2 << 3) | 2;
// No trace is truncated below the limit that the error message names.
static_assert(limits::kMaxAnswerBytes <= xspace::kMaxPartBytes);

constexpr absl::string_view kToolName = "xplane.pb";

// Returns the bytes before the trace.
std::string Prefix(bool emit_xspace, uint64_t xspace_bytes) {
  std::string prefix{kEmptyTraceTag, 0};
  if (emit_xspace) {
    prefix.push_back(kXSpaceTag);
  } else {
    std::string tool{kToolNameTag};
    xspace::AppendVarint(kToolName.size(), &tool);
    absl::StrAppend(&tool, kToolName);
    tool.push_back(kToolBytesTag);
    xspace::AppendVarint(xspace_bytes, &tool);
    prefix.push_back(kToolDataTag);
    xspace::AppendVarint(tool.size() + xspace_bytes, &prefix);
    return prefix + tool;
  }
  xspace::AppendVarint(xspace_bytes, &prefix);
  return prefix;
}

class SliceSink : public xspace::ByteSink {
 public:
  explicit SliceSink(std::shared_ptr<const xspace::Store> store) : store_(std::move(store)) {}

  absl::Status Write(std::string_view bytes, bool stable) override {
    if (stable && bytes.size() >= kMinReferredBytes) {
      CloseBlock();
      Refer(bytes);
    } else {
      Copy(bytes);
    }
    return absl::OkStatus();
  }

  uint64_t size_bytes() const { return size_bytes_; }

  grpc::ByteBuffer Take() {
    CloseBlock();
    return grpc::ByteBuffer(slices_.data(), slices_.size());
  }

 private:
  void Refer(std::string_view bytes) {
    auto* owner = new std::shared_ptr<const xspace::Store>(store_);
    // gRPC never writes to a slice, but its constructor takes a non-const pointer.
    slices_.emplace_back(
        const_cast<char*>(bytes.data()), bytes.size(),
        [](void* user_data) {
          delete static_cast<std::shared_ptr<const xspace::Store>*>(user_data);
        },
        owner);
    size_bytes_ += bytes.size();
  }

  void Copy(std::string_view bytes) {
    size_bytes_ += bytes.size();
    while (!bytes.empty()) {
      if (block_ == nullptr) block_ = std::make_unique<char[]>(kBlockBytes);
      const size_t count = std::min(bytes.size(), kBlockBytes - block_used_);
      std::memcpy(block_.get() + block_used_, bytes.data(), count);
      block_used_ += count;
      bytes.remove_prefix(count);
      if (block_used_ == kBlockBytes) CloseBlock();
    }
  }

  void CloseBlock() {
    if (block_used_ == 0) return;
    if (block_used_ < kBlockBytes / 2) {  // copy, to free the unused rest
      slices_.emplace_back(block_.get(), block_used_);
    } else {
      slices_.emplace_back(
          block_.get(), block_used_, [](void* block) { delete[] static_cast<char*>(block); },
          block_.get());
      static_cast<void>(block_.release());
    }
    block_used_ = 0;
  }

  const std::shared_ptr<const xspace::Store> store_;
  std::vector<grpc::Slice> slices_;
  std::unique_ptr<char[]> block_;
  size_t block_used_ = 0;
  uint64_t size_bytes_ = 0;
};

}  // namespace

absl::StatusOr<Answer> MakeProfileResponse(std::shared_ptr<const xspace::Store> store,
                                           const AnswerOptions& options) {
  const std::vector<xspace::ItemView> items = store->Items();
  xspace::AssembleOptions assemble;
  assemble.hostname = options.hostname;
  assemble.part_limit_bytes = options.max_bytes;
  assemble.keep_readable = true;
  auto assembler = xspace::Assembler::Create(items, std::move(assemble));
  if (!assembler.ok()) return assembler.status();
  const uint64_t xspace_bytes = assembler->parts().front().size_bytes;
  const std::string prefix = Prefix(options.emit_xspace, xspace_bytes);
  if (assembler->parts().size() > 1 || prefix.size() + xspace_bytes > options.max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the trace does not fit one answer of at most ", options.max_bytes,
                     " bytes: ask for a shorter duration or lower levels, or lower the worker's "
                     "JOBSCOPE_STORE_MB"));
  }
  SliceSink sink(std::move(store));
  auto status = sink.Write(prefix, /*stable=*/false);
  if (status.ok()) status = assembler->Write(0, &sink);
  if (!status.ok()) return status;
  // The prefix contains a length. With a wrong one the answer would not parse, or parse as
  // something else.
  if (sink.size_bytes() != prefix.size() + xspace_bytes) {
    return absl::InternalError(absl::StrCat("the trace was planned with ", xspace_bytes,
                                            " bytes and has ", sink.size_bytes() - prefix.size()));
  }
  return Answer{sink.Take(), prefix.size() + xspace_bytes, assembler->events()};
}

}  // namespace jobscope
