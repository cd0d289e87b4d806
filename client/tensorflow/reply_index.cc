// SPDX-License-Identifier: Apache-2.0
#include "client/tensorflow/reply_index.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/xspace/wire/wire.h"

namespace jobscope {
namespace {

// Field numbers of tensorflow.ProfileResponse and ProfileToolData.
constexpr uint32_t kToolData = 6;
constexpr uint32_t kEmptyTrace = 7;
constexpr uint32_t kXSpace = 8;
constexpr uint32_t kToolName = 1;
constexpr uint32_t kToolBytes = 2;

constexpr size_t kMaxRanges = 1024;
constexpr size_t kMaxOtherTools = 100;
constexpr uint64_t kMaxToolNameBytes = 1024;

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Reads forward over slices.
class Cursor {
 public:
  explicit Cursor(const std::vector<grpc::Slice>& slices) : slices_(slices) {
    for (const grpc::Slice& slice : slices) left_ += slice.size();
  }

  uint64_t position() const { return position_; }
  uint64_t left() const { return left_; }

  // Moves forward by `size` bytes and copies them to `out`, unless that is null.
  bool Skip(uint64_t size, char* out = nullptr) {
    if (size > left_) return false;
    while (size > 0) {
      const grpc::Slice& slice = slices_[slice_];
      const uint64_t here = std::min<uint64_t>(size, slice.size() - offset_);
      if (here == 0) {
        NextSlice();
        continue;
      }
      if (out != nullptr) out = std::copy_n(slice.begin() + offset_, here, out);
      Advance(here);
      size -= here;
    }
    return true;
  }

  bool String(uint64_t size, std::string* text) {
    if (size > left_) return false;
    text->resize(size);
    return Skip(size, text->data());
  }

  bool Varint(uint64_t* value) {
    char bytes[xspace::kMaxVarintBytes];
    const uint64_t size = std::min<uint64_t>(left_, sizeof(bytes));
    (void)Cursor(*this).Skip(size, bytes);
    const char* const end = xspace::ReadVarint(bytes, bytes + size, value);
    return end != nullptr && Skip(static_cast<uint64_t>(end - bytes));
  }

  // Reads the header of a field; for kBytes also its size, which is then known to lie within the
  // reply.
  bool Header(uint32_t* field, uint32_t* wire_type, uint64_t* size) {
    uint64_t tag = 0;
    if (!Varint(&tag) || tag > UINT32_MAX || (tag >> 3) == 0) return false;
    *field = static_cast<uint32_t>(tag >> 3);
    *wire_type = static_cast<uint32_t>(tag & 7);
    *size = 0;
    return *wire_type != kBytes || (Varint(size) && *size <= left_);
  }

  bool SkipValue(uint32_t wire_type, uint64_t size) {
    uint64_t ignored = 0;
    switch (wire_type) {
      case kVarint:
        return Varint(&ignored);
      case kFixed64:
        return Skip(8);
      case kBytes:
        return Skip(size);
      case kFixed32:
        return Skip(4);
      default:
        return false;
    }
  }

 private:
  void NextSlice() {
    ++slice_;
    offset_ = 0;
  }
  void Advance(uint64_t size) {
    offset_ += size;
    position_ += size;
    left_ -= size;
  }

  const std::vector<grpc::Slice>& slices_;
  size_t slice_ = 0;
  size_t offset_ = 0;
  uint64_t position_ = 0;
  uint64_t left_ = 0;
};

absl::Status NoReply(const Cursor& cursor) {
  return absl::InvalidArgumentError(
      absl::StrCat("the answer is not a ProfileResponse (at byte ", cursor.position(), ")"));
}

bool IsTraceName(const std::string& name) {
  return name == "xplane.pb" || absl::EndsWith(name, ".xplane.pb");
}

// Reads one tool_data of `size` bytes: its name, and the range of its data.
bool ReadTool(Cursor* cursor, uint64_t size, std::string* name, ReplyRange* data) {
  const uint64_t end = cursor->position() + size;
  while (cursor->position() < end) {
    uint32_t field = 0;
    uint32_t wire_type = 0;
    uint64_t bytes = 0;
    if (!cursor->Header(&field, &wire_type, &bytes)) return false;
    if (cursor->position() > end || bytes > end - cursor->position()) return false;
    if (field == kToolName && wire_type == kBytes && bytes <= kMaxToolNameBytes) {
      if (!cursor->String(bytes, name)) return false;
      continue;
    }
    if (field == kToolBytes && wire_type == kBytes) *data = {cursor->position(), bytes};
    if (!cursor->SkipValue(wire_type, bytes)) return false;
  }
  return cursor->position() == end;
}

}  // namespace

absl::StatusOr<ReplyIndex> IndexReply(const std::vector<grpc::Slice>& slices) {
  ReplyIndex index;
  std::vector<ReplyRange> tool_traces;
  Cursor cursor(slices);
  while (cursor.left() > 0) {
    uint32_t field = 0;
    uint32_t wire_type = 0;
    uint64_t size = 0;
    if (!cursor.Header(&field, &wire_type, &size)) return NoReply(cursor);
    if (field == kToolData && wire_type == kBytes) {
      std::string name;
      ReplyRange data;
      if (!ReadTool(&cursor, size, &name, &data)) return NoReply(cursor);
      if (IsTraceName(name)) {
        tool_traces.push_back(data);
      } else if (index.other_tools.size() < kMaxOtherTools) {
        index.other_tools.push_back(name);
      }
    } else if (field == kEmptyTrace && wire_type == kVarint) {
      uint64_t value = 0;
      if (!cursor.Varint(&value)) return NoReply(cursor);
      index.empty_trace = value != 0;
    } else {
      if (field == kXSpace && wire_type == kBytes) {
        index.xspace.push_back({cursor.position(), size});
      }
      if (!cursor.SkipValue(wire_type, size)) return NoReply(cursor);
    }
    if (index.xspace.size() > kMaxRanges || tool_traces.size() > kMaxRanges) return NoReply(cursor);
  }
  // Two traces of one worker would be two files of one name: uses the first.
  if (index.xspace.empty() && !tool_traces.empty()) index.xspace.push_back(tool_traces.front());
  return index;
}

}  // namespace jobscope
