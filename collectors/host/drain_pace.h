// SPDX-License-Identifier: Apache-2.0
//
// How soon the rings are to be read again.
#ifndef COLLECTORS_HOST_DRAIN_PACE_H_
#define COLLECTORS_HOST_DRAIN_PACE_H_

#include <cstdint>

#include "absl/time/time.h"

namespace jobscope::host {

// What one drain has found.
struct DrainFindings {
  bool store_full = false;
  bool out_of_time = false;      // there is more to read
  uint64_t busiest_records = 0;  // of the busiest thread, since the last drain
  uint64_t ended_threads = 0;    // whose rings were given back
};

// Reads often enough that no ring is more than a quarter full, by the fastest rate of the last two
// seconds, and seldom where nothing is recorded. One thread's.
class DrainPace {
 public:
  // A ring is to be at most this full, one part of so many, when its reader comes.
  static constexpr uint64_t kRingShare = 4;

  // Ticks as in `now_ticks`, which is the time of the first drain.
  void Begin(uint64_t now_ticks, double ticks_per_second, uint64_t ring_records);
  // After the drain that began at `entry_ticks`: the pause until the next.
  absl::Duration Next(uint64_t entry_ticks, const DrainFindings& found);

 private:
  double ticks_per_second_ = 1e9;
  uint64_t ring_records_ = 0;
  uint64_t last_drain_ticks_ = 0;
  uint64_t last_record_ticks_ = 0;
  double peak_rate_ = 0;     // of the busiest thread: records per tick, the highest of late
  uint64_t peak_ticks_ = 0;  // when it was reached
  absl::Duration pause_;
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_DRAIN_PACE_H_
