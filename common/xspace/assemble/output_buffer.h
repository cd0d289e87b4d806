// SPDX-License-Identifier: Apache-2.0
//
// Collects small pieces of output, and passes large ones on by reference.
#ifndef COMMON_XSPACE_ASSEMBLE_OUTPUT_BUFFER_H_
#define COMMON_XSPACE_ASSEMBLE_OUTPUT_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "common/files/byte_sink.h"
#include "common/xspace/assemble/read_meter.h"

namespace jobscope::xspace {

// Collects small writes to a sink into large ones. Not thread-safe. After the sink's first error,
// everything is discarded.
class OutputBuffer {
 public:
  // `meter`, which may be null, is used by callers that read what is written.
  explicit OutputBuffer(ByteSink* sink, ReadMeter* meter = nullptr)
      : sink_(sink), meter_(meter), buffer_(new char[kCapacity]) {}

  // Writes bytes that may change after the call.
  void Copy(std::string_view bytes) {
    if (bytes.empty()) return;
    if (bytes.size() > kCapacity - used_) {
      Flush();
      if (bytes.size() > kCapacity) return Pass(bytes, /*stable=*/false);
    }
    std::memcpy(buffer_.get() + used_, bytes.data(), bytes.size());
    used_ += bytes.size();
  }

  // Writes bytes that lie in an item. Not inlined: loops over events would lack its registers.
  [[gnu::noinline]] void Stable(std::string_view bytes) {
    if (bytes.size() < kMinStableBytes) return Copy(bytes);
    Flush();
    Pass(bytes, /*stable=*/true);
  }

  // Writes bytes of an item that are usually few; memory up to `readable_end` may be read beyond
  // them.
  void StableStretch(std::string_view bytes, const char* readable_end) {
    // Copying a fixed, larger size is faster than computing how much is needed.
    if (__builtin_expect(static_cast<int64_t>(bytes.size()) <= kShortBytes &&
                             readable_end - bytes.data() >= kShortBytes &&
                             used_ + kShortBytes <= kCapacity,
                         1)) {
      std::memcpy(buffer_.get() + used_, bytes.data(), kShortBytes);
      used_ += bytes.size();
      return;
    }
    Stable(bytes);
  }

  // Passes on what is collected; returns the first error so far.
  absl::Status Finish() {
    Flush();
    return status_;
  }

  bool ok() const { return status_.ok(); }
  ReadMeter* meter() const { return meter_; }
  uint64_t written() const { return written_ + used_; }

 private:
  // Large enough to make the cost of a sink's write() calls negligible, small enough for the L2
  // cache.
  static constexpr size_t kCapacity = size_t{128} << 10;
  // Smaller pieces are copied: a reference costs a sink more than the copy.
  static constexpr size_t kMinStableBytes = 4096;
  // Size of an event without stats.
  static constexpr int64_t kShortBytes = 32;

  void Flush() {
    if (used_ != 0) Pass(std::string_view(buffer_.get(), used_), /*stable=*/false);
    used_ = 0;
  }

  void Pass(std::string_view bytes, bool stable) {
    if (status_.ok()) status_ = sink_->Write(bytes, stable);
    written_ += bytes.size();
  }

  ByteSink* const sink_;
  ReadMeter* const meter_;
  const std::unique_ptr<char[]> buffer_;
  size_t used_ = 0;
  uint64_t written_ = 0;  // passed on
  absl::Status status_;
};

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_ASSEMBLE_OUTPUT_BUFFER_H_
