// SPDX-License-Identifier: Apache-2.0
//
// Decides when to read the rings again.
#ifndef COLLECTORS_HOST_DRAIN_PACE_H_
#define COLLECTORS_HOST_DRAIN_PACE_H_

#include <cstdint>

#include "absl/time/time.h"

namespace jobscope::host {

// Results of one drain.
struct DrainFindings {
  bool store_full = false;
  bool out_of_time = false;      // there is more to read
  uint64_t busiest_records = 0;  // records of the busiest thread since the last drain
  uint64_t ended_threads = 0;    // threads whose rings were released
};

// Decides how often to read the rings: often enough that no ring is more than a quarter full, at
// the highest rate of the last two seconds (of the last 30 s, for rates that fill a ring within the
// longest pause), and rarely if nothing is recorded. Not thread-safe.
class DrainPace {
 public:
  // Inverse of the fill level at which a ring should be read.
  static constexpr uint64_t kRingShare = 4;

  // Starts with the first drain, at `now_ticks`.
  void Begin(uint64_t now_ticks, double ticks_per_second, uint64_t ring_records);
  // Returns the pause after the drain that began at `entry_ticks`.
  absl::Duration Next(uint64_t entry_ticks, const DrainFindings& found);

 private:
  double ticks_per_second_ = 1e9;
  uint64_t ring_records_ = 0;
  uint64_t last_drain_ticks_ = 0;
  uint64_t last_record_ticks_ = 0;
  double peak_rate_ = 0;     // records per tick of the busiest thread: recent maximum
  uint64_t peak_ticks_ = 0;  // when it, or another fast rate, was last reached
  absl::Duration pause_;
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_DRAIN_PACE_H_
