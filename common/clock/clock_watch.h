// SPDX-License-Identifier: Apache-2.0
//
// Detects, during a recording, that ticks no longer match their map.
#ifndef COMMON_CLOCK_CLOCK_WATCH_H_
#define COMMON_CLOCK_CLOCK_WATCH_H_

#include <cstdint>

#include "common/clock/clock.h"

namespace jobscope {

// Detects when a TickMap stops matching the clocks. Not thread-safe.
class ClockWatch {
 public:
  ClockWatch() = default;
  // `now`: a sample for which the map is valid.
  ClockWatch(const TickMap& map, const ClockSample& now) : map_(map), last_good_(now) {}

  // Returns false, and keeps returning it, once ticks and MONOTONIC have drifted apart between the
  // last sample and this one by more than 0.2 ms plus 0.1 % of the elapsed time. Slewing cannot
  // explain that.
  bool Holds(const ClockSample& now);
  // Returns the tick of the last sample for which the map was valid.
  uint64_t last_good_ticks() const { return last_good_.ticks; }

 private:
  TickMap map_;
  ClockSample last_good_;
  bool holds_ = true;
};

}  // namespace jobscope

#endif  // COMMON_CLOCK_CLOCK_WATCH_H_
