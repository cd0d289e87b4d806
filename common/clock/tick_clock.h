// SPDX-License-Identifier: Apache-2.0
//
// Reads the ticks of a session, and converts durations to them.
#ifndef COMMON_CLOCK_TICK_CLOCK_H_
#define COMMON_CLOCK_TICK_CLOCK_H_

#include <cstdint>

#include "absl/time/time.h"
#include "jobscope/detail/ticks.h"

namespace jobscope {

// Reads ticks and converts durations to ticks. Not thread-safe.
class TickClock {
 public:
  // `uses_tsc`: ticks are the time stamp counter, otherwise MONOTONIC in nanoseconds.
  explicit TickClock(bool uses_tsc) : uses_tsc_(uses_tsc) {}

  // Sets the tick rate; until then ticks count as nanoseconds.
  void SetRate(double ticks_per_second) { ticks_per_second_ = ticks_per_second; }

  bool uses_tsc() const { return uses_tsc_; }
  double ticks_per_second() const { return ticks_per_second_; }
  uint64_t Now() const { return detail::ReadTicks(uses_tsc_); }
  uint64_t Ticks(absl::Duration duration) const {
    return static_cast<uint64_t>(absl::ToDoubleSeconds(duration) * ticks_per_second_);
  }
  // Returns `duration` before `ticks`, or 0.
  uint64_t Before(uint64_t ticks, absl::Duration duration) const {
    const uint64_t earlier = Ticks(duration);
    return ticks > earlier ? ticks - earlier : 0;
  }

 private:
  bool uses_tsc_;
  double ticks_per_second_ = 1e9;
};

}  // namespace jobscope

#endif  // COMMON_CLOCK_TICK_CLOCK_H_
