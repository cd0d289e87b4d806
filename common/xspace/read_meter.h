// SPDX-License-Identifier: Apache-2.0
//
// Counts what is read of items that are mapped from a file, so that their pages can be let go of.
#ifndef COMMON_XSPACE_READ_METER_H_
#define COMMON_XSPACE_READ_METER_H_

#include <cstdint>
#include <functional>
#include <utility>

namespace jobscope::xspace {

// Not thread-safe.
class ReadMeter {
 public:
  // Small beside what a client needs anyway, large enough that the faults of what is read once more
  // don't count.
  static constexpr uint64_t kLetGoBytes = uint64_t{32} << 20;

  explicit ReadMeter(std::function<void()> let_go) : let_go_(std::move(let_go)) {}

  // Tells of bytes that were just read. May call `let_go`.
  void Add(uint64_t bytes) {
    read_bytes_ += bytes;
    if (read_bytes_ < kLetGoBytes) return;
    read_bytes_ = 0;
    if (let_go_) let_go_();
  }

 private:
  const std::function<void()> let_go_;
  uint64_t read_bytes_ = 0;
};

// Where items lie in memory that is nobody's to let go of, there is no meter.
inline void AddRead(ReadMeter* meter, uint64_t bytes) {
  if (meter != nullptr) meter->Add(bytes);
}

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_READ_METER_H_
