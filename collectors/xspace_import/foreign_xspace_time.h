// SPDX-License-Identifier: Apache-2.0
//
// Converts times of a framework's trace, which are based on CLOCK_REALTIME, to session time.
#ifndef COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_TIME_H_
#define COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_TIME_H_

#include <cstdint>

#include "common/clock/clock.h"

namespace jobscope::framework {

// Times of one recording lie less than a day apart; others count from another zero, or are wrong.
inline constexpr int64_t kDayNs = int64_t{86'400} * 1'000'000'000;

// Maps REALTIME to ps since the session's zero, by clock samples around the framework's recording:
// the session's own map is fixed before it, and REALTIME is steered meanwhile (10 ppm of a minute
// are 0.6 ms). Monotone, so nesting is kept.
class ForeignTime {
 public:
  // `map` has the session's zero. `before` and `after` are clock samples taken before and after the
  // framework recorded.
  ForeignTime(const TickMap& map, const ClockSample& before, const ClockSample& after);

  // Returns the session time of `offset_ps` after `unix_ns`.
  int64_t ToPs(int64_t unix_ns, int64_t offset_ps) const;

  // Returns true if somebody set the clock meanwhile: times of this recording may be off by that
  // amount.
  bool stepped() const { return stepped_; }
  // Returns when the recording began, for lines that count from there and do not say when that was.
  int64_t start_unix_ns() const { return anchor_unix_ns_; }

 private:
  int64_t anchor_unix_ns_ = 0;
  int64_t anchor_ps_ = 0;
  double correction_ = 0;  // session ps per ps of REALTIME, less 1
  bool stepped_ = false;
};

}  // namespace jobscope::framework

#endif  // COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_TIME_H_
