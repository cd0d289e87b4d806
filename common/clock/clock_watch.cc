// SPDX-License-Identifier: Apache-2.0
#include "common/clock/clock_watch.h"

#include <cmath>

namespace jobscope {
namespace {

constexpr double kToleranceNs = 200'000;
constexpr double kRateTolerance = 1e-3;

}  // namespace

bool ClockWatch::Holds(const ClockSample& now) {
  if (!holds_) return false;
  const TickMap map = map_.WithZero(last_good_.ticks);
  const double by_ticks_ns = static_cast<double>(map.ToPs(now.ticks)) / 1e3;
  const auto by_clock_ns =
      static_cast<double>(static_cast<int64_t>(now.monotonic_ns - last_good_.monotonic_ns));
  // A thread preempted in the middle of a sample widens its bracket.
  const uint64_t bracket_ticks = now.bracket_ticks + last_good_.bracket_ticks;
  const double bracket_ns = static_cast<double>(map.ToPs(last_good_.ticks + bracket_ticks)) / 1e3;
  const double tolerance_ns = kToleranceNs + bracket_ns + kRateTolerance * std::abs(by_clock_ns);
  holds_ = std::abs(by_ticks_ns - by_clock_ns) <= tolerance_ns;
  if (holds_) last_good_ = now;
  return holds_;
}

}  // namespace jobscope
