// SPDX-License-Identifier: Apache-2.0
//
// Times of a framework's trace, which count from a reading of CLOCK_REALTIME, in session time.
#ifndef COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_TIME_H_
#define COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_TIME_H_

#include <cstdint>

#include "common/clock/clock.h"

namespace jobscope::framework {

// REALTIME to ps since the session's zero, by the clocks as they were around the framework's
// recording: the session's own map is fixed before it, and REALTIME is steered meanwhile (10 ppm of
// a minute are 0.6 ms). Monotone, so what was nested stays nested.
class ForeignTime {
 public:
  // `map` with the session's zero. `before` and `after`: the clocks before the framework began to
  // record and after it ended.
  ForeignTime(const TickMap& map, const ClockSample& before, const ClockSample& after);

  // Of `offset_ps` after `unix_ns`.
  int64_t ToPs(int64_t unix_ns, int64_t offset_ps) const;

  // Someone set the clock meanwhile: times of this recording may be off by as much.
  bool stepped() const { return stepped_; }
  // When the recording began: for lines that count from there and do not say when that was.
  int64_t start_unix_ns() const { return anchor_unix_ns_; }

 private:
  int64_t anchor_unix_ns_ = 0;
  int64_t anchor_ps_ = 0;
  double correction_ = 0;  // session ps per ps of REALTIME, less 1
  bool stepped_ = false;
};

}  // namespace jobscope::framework

#endif  // COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_TIME_H_
