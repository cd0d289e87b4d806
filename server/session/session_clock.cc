// SPDX-License-Identifier: Apache-2.0
#include "server/session/session_clock.h"

#include <optional>
#include <utility>

#include "common/clock/clock_watch.h"
#include "jobscope/detail/ticks.h"

namespace jobscope {
namespace {

// The current tick rate is computed from two samples this close together: within it the process is
// not suspended or migrated. With 50 ns of uncertainty per sample, the shortest distance gives the
// rate to 100 ppm.
constexpr uint64_t kMaxRecentNs = 1'000'000'000;
constexpr auto kRecent = std::chrono::milliseconds(1);

}  // namespace

void SessionClock::Begin(std::vector<std::string>* warnings) {
  recent_ = SampleClocks(uses_tsc_);
  if (std::optional<std::string> warning = baseline_->CheckClocksource()) {
    warnings->push_back(*std::move(warning));
  }
}

void SessionClock::AwaitBaseline(const Pause& pause) {
  const uint64_t age_ns = baseline_->AgeNs(WorkerMonotonicNs());
  if (age_ns < kMinBaselineNs) pause(std::chrono::nanoseconds(kMinBaselineNs - age_ns));
}

void SessionClock::Fix(const Pause& pause, std::vector<std::string>* warnings) {
  ClockSample now = SampleClocks(uses_tsc_);
  if (now.monotonic_ns - recent_.monotonic_ns > kMaxRecentNs) {
    recent_ = now;
    pause(kRecent);
    now = SampleClocks(uses_tsc_);
  }
  if (const std::optional<std::string> jumped = baseline_->Check(recent_, now)) {
    warnings->push_back(*jumped);
    AwaitBaseline(pause);
    now = SampleClocks(uses_tsc_);
    past_from_ticks_ = now.ticks;
  }
  recent_ = now;
  map_ = TickMap::FromSamples(baseline_->early(), now);
}

bool SessionClock::Holds() const {
  return !uses_tsc_ || ClockWatch(map_, recent_).Holds(SampleClocks(uses_tsc_));
}

uint64_t SessionClock::NowTicks() const { return detail::ReadTicks(uses_tsc_); }

uint64_t SessionClock::Nanoseconds(uint64_t ticks) const {
  return static_cast<uint64_t>(map_.WithZero(0).ToPs(ticks)) / 1000;
}

CondVar::Clock::time_point SessionClock::TimeOf(uint64_t ticks) const {
  const uint64_t now_ticks = NowTicks();
  const auto now = CondVar::Clock::now();
  if (ticks <= now_ticks) return now;
  const double seconds = static_cast<double>(ticks - now_ticks) / map_.ticks_per_second();
  return now + std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

}  // namespace jobscope
