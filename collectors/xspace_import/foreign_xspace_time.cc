// SPDX-License-Identifier: Apache-2.0
#include "collectors/xspace_import/foreign_xspace_time.h"

#include <cmath>
#include <limits>

namespace jobscope::framework {
namespace {

// Minimum distance of samples for a rate: with a bracket of 50 ns, closer ones are off by 1 ppm.
constexpr int64_t kMinBaselinePs = 50'000'000'000;
// Clocks are steered by at most 500 ppm; a larger difference means that a clock was set.
constexpr double kMaxSteering = 1e-3;

int64_t Saturated(__int128 value) {
  constexpr __int128 kMax = std::numeric_limits<int64_t>::max();
  constexpr __int128 kMin = std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value > kMax ? kMax : value < kMin ? kMin : value);
}

}  // namespace

ForeignTime::ForeignTime(const TickMap& map, const ClockSample& before, const ClockSample& after)
    : anchor_unix_ns_(static_cast<int64_t>(before.realtime_ns)),
      anchor_ps_(map.ToPs(before.ticks)) {
  const __int128 own = __int128{map.ToPs(after.ticks)} - anchor_ps_;
  const __int128 theirs =
      (__int128{static_cast<int64_t>(after.realtime_ns)} - anchor_unix_ns_) * 1000;
  if (own < kMinBaselinePs) return;
  const double correction =
      theirs <= 0 ? 1 : static_cast<double>(own - theirs) / static_cast<double>(theirs);
  stepped_ = std::abs(correction) > kMaxSteering;
  if (!stepped_) correction_ = correction;
}

int64_t ForeignTime::ToPs(int64_t unix_ns, int64_t offset_ps) const {
  const __int128 distance = (__int128{unix_ns} - anchor_unix_ns_) * 1000 + offset_ps;
  // Only the correction uses a double: the distance itself stays exact.
  const auto corrected =
      static_cast<__int128>(std::nearbyint(static_cast<double>(distance) * correction_));
  return Saturated(anchor_ps_ + distance + corrected);
}

}  // namespace jobscope::framework
