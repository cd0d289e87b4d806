// SPDX-License-Identifier: Apache-2.0
//
// The early half of the map from ticks to time, and whether it still holds.
#ifndef COMMON_CLOCK_CLOCK_BASELINE_H_
#define COMMON_CLOCK_CLOCK_BASELINE_H_

#include <mutex>
#include <optional>
#include <string>

#include "common/clock/clock.h"

namespace jobscope {

// A rate from two samples nearer than this is too rough: at 50 ns of bracket it would be off by
// more than 1 ppm.
inline constexpr uint64_t kMinBaselineNs = 100'000'000;

// One per process, shared by all who map ticks to time. The sample is taken when it is made, and
// anew when the ticks have jumped since: the machine was suspended, the process was restored from a
// checkpoint, or its virtual machine moved. Thread-safe.
class ClockBaseline {
 public:
  // `clocksource_path`: of the file that tells the kernel's clock source; for tests.
  explicit ClockBaseline(bool uses_tsc,
                         std::string clocksource_path =
                             "/sys/devices/system/clocksource/clocksource0/current_clocksource");
  ClockBaseline(const ClockBaseline&) = delete;
  ClockBaseline& operator=(const ClockBaseline&) = delete;

  bool uses_tsc() const { return uses_tsc_; }
  ClockSample early() const;
  // Of `early`, at `monotonic_ns`.
  uint64_t AgeNs(uint64_t monotonic_ns) const;

  // Whether ticks and clocks ran from `early` to `now` as they did of late, from `recent` to `now`:
  // two samples between which they did not jump, 1 ms apart or more. If not: makes `now` the early
  // sample, and returns why, for people.
  std::optional<std::string> Check(const ClockSample& recent, const ClockSample& now);

  // A warning, if the kernel has stopped to trust the TSC since this was made. Reads a file.
  std::optional<std::string> CheckClocksource() const;

 private:
  std::string Clocksource() const;

  const bool uses_tsc_;
  const std::string clocksource_path_;
  const std::string first_clocksource_;
  mutable std::mutex mutex_;
  ClockSample early_;  // under the lock
};

// Why ticks and MONOTONIC did not run from `early` to `now` as from `recent` to `now`; empty: they
// did, as far as samples so near to each other can tell.
std::string WhyClocksDiffer(const ClockSample& early, const ClockSample& recent,
                            const ClockSample& now);

}  // namespace jobscope

#endif  // COMMON_CLOCK_CLOCK_BASELINE_H_
