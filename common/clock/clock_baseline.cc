// SPDX-License-Identifier: Apache-2.0
#include "common/clock/clock_baseline.h"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace jobscope {
namespace {

// Bounds the relative difference between the rate since the baseline and the current rate.
// MONOTONIC is slewed by at most 500 ppm; a smaller difference falsifies durations by less than
// this.
constexpr double kRateTolerance = 1e-3;
// Bounds the change of BOOTTIME minus MONOTONIC: a thread may be preempted between the two reads.
constexpr int64_t kSuspendedNs = 100'000'000;
// Minimum distance of two samples from which a rate can be computed.
constexpr uint64_t kMinRecentNs = 100'000;

}  // namespace

std::string WhyClocksDiffer(const ClockSample& early, const ClockSample& recent,
                            const ClockSample& now) {
  const int64_t suspended_ns = now.suspended_ns - early.suspended_ns;
  if (suspended_ns >= kSuspendedNs) {
    return absl::StrFormat("the machine was suspended for %.1f s",
                           static_cast<double>(suspended_ns) / 1e9);
  }
  if (now.ticks <= early.ticks) return "the time stamp counter began anew";
  const bool recent_rate =
      now.ticks > recent.ticks && now.monotonic_ns >= recent.monotonic_ns + kMinRecentNs;
  if (!recent_rate) return "";
  const auto recent_ticks = static_cast<double>(now.ticks - recent.ticks);
  const double rate = recent_ticks / static_cast<double>(now.monotonic_ns - recent.monotonic_ns);
  const double rough = static_cast<double>(recent.bracket_ticks + now.bracket_ticks) / recent_ticks;
  const auto ticks = static_cast<double>(now.ticks - early.ticks);
  // In a restored process MONOTONIC may be earlier than before.
  const auto ns = static_cast<double>(static_cast<int64_t>(now.monotonic_ns - early.monotonic_ns));
  const double expected = rate * ns;
  if (ns > 0 && std::abs(ticks / expected - 1) <= kRateTolerance + rough) return "";
  return absl::StrFormat("the time stamp counter jumped by %.3f s, or its rate changed",
                         (ticks - expected) / rate / 1e9);
}

ClockBaseline::ClockBaseline(bool uses_tsc, std::string clocksource_path)
    : uses_tsc_(uses_tsc),
      clocksource_path_(std::move(clocksource_path)),
      first_clocksource_(Clocksource()),
      early_(SampleClocks(uses_tsc)) {}

ClockSample ClockBaseline::early() const {
  const MutexLock lock(&mutex_);
  return early_;
}

uint64_t ClockBaseline::AgeNs(uint64_t monotonic_ns) const {
  const uint64_t early_ns = early().monotonic_ns;
  return monotonic_ns > early_ns ? monotonic_ns - early_ns : 0;
}

std::optional<std::string> ClockBaseline::Check(const ClockSample& recent, const ClockSample& now) {
  if (!uses_tsc_) return std::nullopt;  // ticks are MONOTONIC
  const MutexLock lock(&mutex_);
  const std::string why = WhyClocksDiffer(early_, recent, now);
  if (why.empty()) return std::nullopt;
  early_ = now;
  return absl::StrCat(why, " since this worker last fixed its clock: its map from ticks to time ",
                      "was made anew");
}

std::string ClockBaseline::Clocksource() const {
  const int fd = open(clocksource_path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  char text[64] = {};
  const ssize_t size = read(fd, text, sizeof(text) - 1);
  close(fd);
  return size > 0 ? std::string(absl::StripAsciiWhitespace({text, static_cast<size_t>(size)})) : "";
}

std::optional<std::string> ClockBaseline::CheckClocksource() const {
  if (!uses_tsc_ || first_clocksource_ != "tsc") return std::nullopt;
  const std::string now = Clocksource();
  if (now == "tsc" || now.empty()) return std::nullopt;
  return absl::StrCat(
      "the kernel does not trust the time stamp counter any more (its clock source ", "is now ",
      now, "): times of different cores may differ. Restart the worker: ",
      "it then records with CLOCK_MONOTONIC");
}

}  // namespace jobscope
