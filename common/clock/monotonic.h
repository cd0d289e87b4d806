// SPDX-License-Identifier: Apache-2.0
//
// Reads this machine's MONOTONIC clock for deadlines and durations: setting the date does not move
// it. clock.h lists all clocks and their uses.
#ifndef COMMON_CLOCK_MONOTONIC_H_
#define COMMON_CLOCK_MONOTONIC_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "jobscope/detail/ticks.h"

namespace jobscope {

inline uint64_t MonotonicNow() { return detail::MonotonicNs(); }

// Converts MonotonicNow for arithmetic with absl::Duration. Its epoch is not absl's: it is no date,
// and must not be mixed with absl::Now(), which jumps when the clock is set.
inline absl::Time SteadyTime(uint64_t monotonic_ns) {
  return absl::FromUnixNanos(static_cast<int64_t>(monotonic_ns));
}
inline absl::Time SteadyNow() { return SteadyTime(MonotonicNow()); }

// A deadline on MONOTONIC that never comes.
inline constexpr uint64_t kNeverNs = UINT64_MAX;

// Converts a duration for sums with instants of MonotonicNow: at most a year, so that no sum
// overflows.
inline uint64_t DurationNs(absl::Duration duration) {
  return static_cast<uint64_t>(
      absl::ToInt64Nanoseconds(std::clamp(duration, absl::ZeroDuration(), absl::Hours(24 * 365))));
}

}  // namespace jobscope

#endif  // COMMON_CLOCK_MONOTONIC_H_
