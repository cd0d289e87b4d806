// SPDX-License-Identifier: Apache-2.0
//
// Keeps the early sample of the map from ticks to time, and checks that it still holds.
#ifndef COMMON_CLOCK_CLOCK_BASELINE_H_
#define COMMON_CLOCK_CLOCK_BASELINE_H_

#include <optional>
#include <string>

#include "common/clock/clock.h"
#include "common/sync/mutex.h"

namespace jobscope {

// Minimum distance of two samples for a usable rate: with a bracket of 50 ns, closer ones would be
// off by more than 1 ppm.
inline constexpr uint64_t kMinBaselineNs = 100'000'000;

// Keeps the early clock sample that every TickMap of the process is computed from. Takes it on
// construction, and again when the ticks have jumped since: the machine was suspended, the process
// was restored from a checkpoint, or its virtual machine was migrated. One per process.
// Thread-safe.
class ClockBaseline {
 public:
  // `clocksource_path` names the kernel's clock source file; tests replace it.
  explicit ClockBaseline(bool uses_tsc,
                         std::string clocksource_path =
                             "/sys/devices/system/clocksource/clocksource0/current_clocksource");
  ClockBaseline(const ClockBaseline&) = delete;
  ClockBaseline& operator=(const ClockBaseline&) = delete;

  bool uses_tsc() const { return uses_tsc_; }
  ClockSample early() const;
  // Returns the age of the early sample at `monotonic_ns`.
  uint64_t AgeNs(uint64_t monotonic_ns) const;

  // Compares the rate from `early` to `now` with the recent rate, from `recent` to `now`; these two
  // must be at least 1 ms apart, without a jump between them. If the rates differ, makes `now` the
  // early sample and returns the reason as text.
  std::optional<std::string> Check(const ClockSample& recent, const ClockSample& now);

  // Returns a warning if the kernel has marked the TSC unstable since construction. Reads a file.
  std::optional<std::string> CheckClocksource() const;

 private:
  std::string Clocksource() const;

  const bool uses_tsc_;
  const std::string clocksource_path_;
  const std::string first_clocksource_;
  mutable Mutex mutex_;
  ClockSample early_ ABSL_GUARDED_BY(mutex_);
};

// Returns why ticks and MONOTONIC ran differently from `early` to `now` than from `recent` to
// `now`. Empty: no difference is measurable between samples this close.
std::string WhyClocksDiffer(const ClockSample& early, const ClockSample& recent,
                            const ClockSample& now);

}  // namespace jobscope

#endif  // COMMON_CLOCK_CLOCK_BASELINE_H_
