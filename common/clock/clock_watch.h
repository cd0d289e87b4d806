// SPDX-License-Identifier: Apache-2.0
//
// Notices, while something is recorded, that ticks have stopped to run as their map says.
#ifndef COMMON_CLOCK_CLOCK_WATCH_H_
#define COMMON_CLOCK_CLOCK_WATCH_H_

#include <cstdint>

#include "common/clock/clock.h"

namespace jobscope {

// Not thread-safe.
class ClockWatch {
 public:
  ClockWatch() = default;
  // `now`: a sample that the map holds for.
  ClockWatch(const TickMap& map, const ClockSample& now) : map_(map), last_good_(now) {}

  // False, and so from then on: between the last sample and this one, ticks and MONOTONIC have run
  // apart by more than 0.2 ms and 0.1 % of the time between, which no slewing explains.
  bool Holds(const ClockSample& now);
  // Until then they had not.
  uint64_t last_good_ticks() const { return last_good_.ticks; }

 private:
  TickMap map_;
  ClockSample last_good_;
  bool holds_ = true;
};

}  // namespace jobscope

#endif  // COMMON_CLOCK_CLOCK_WATCH_H_
