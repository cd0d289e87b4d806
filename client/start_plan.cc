// SPDX-License-Identifier: Apache-2.0
#include "client/start_plan.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace jobscope {
namespace {

// A stock worker arms when it is asked to record: what its profiler takes for that is unknown, and
// unknown is taken for slow.
constexpr absl::Duration kMinLeadUnary = absl::Milliseconds(50);
constexpr absl::Duration kMinLead = absl::Milliseconds(10);
// One worker alone waits for nobody: only its own message has to arrive.
constexpr absl::Duration kMinLeadAlone = absl::Milliseconds(1);
constexpr absl::Duration kMaxLead = absl::Seconds(2);
// To tell one worker more, on this side: docs/design/client.md has the measurement.
constexpr absl::Duration kLeadPerWorker = absl::Microseconds(100);

// Steps do not take the same time each: what is expected until an instant may be exceeded by a
// quarter.
constexpr double kStepRateMargin = 1.25;

// From the begin of the newest step that is known, as the worker told it, to `at_ns`. The answer
// was under way for a part of the round trip: at most all of it.
double SinceStepBegan(const ArmedWorker& worker, uint64_t at_ns) {
  const double seen = at_ns > worker.steps_seen_ns
                          ? static_cast<double>(at_ns - worker.steps_seen_ns)
                          : -static_cast<double>(worker.steps_seen_ns - at_ns);
  const double way =
      worker.clock.has_value() ? static_cast<double>(worker.clock->round_trip_ns) : 0.0;
  return std::max(0.0, seen + way + static_cast<double>(worker.steps->age_ns()));
}

// Numbers come from the wire: sums must not overflow.
int64_t Plus(int64_t number, double steps) {
  const double sum = static_cast<double>(number) + steps;
  constexpr double kLimit = 9.0e18;
  if (sum >= kLimit) return INT64_MAX;
  return number + static_cast<int64_t>(std::max(steps, 0.0));
}

}  // namespace

bool HasSteps(const ArmedWorker& worker) {
  return worker.streams && worker.steps.has_value() && worker.steps->begun() > 0 &&
         worker.steps->increasing();
}

absl::Duration StartLead(const std::vector<ArmedWorker>& workers, absl::Duration slowest_arm,
                         absl::Duration sync_phase) {
  const bool alone = workers.size() == 1;
  absl::Duration lead = alone ? kMinLeadAlone : kMinLead;
  absl::Duration way;
  for (const ArmedWorker& worker : workers) {
    if (!worker.streams) lead = std::max({lead, kMinLeadUnary, slowest_arm});
    if (worker.clock.has_value()) {
      way = std::max(way, absl::Nanoseconds(worker.clock->round_trip_ns));
    }
  }
  lead = std::max(lead, 2 * way);
  // The narrowest exchanges tell how fast a message can be; the phase, how slow so many are on
  // machines that are busy. A ping is asked for and answered three times at least, a start once.
  if (!alone) lead = std::max(lead, sync_phase / 2);
  if (!alone) lead += static_cast<double>(workers.size()) * kLeadPerWorker;
  return std::min(lead, kMaxLead);
}

int64_t FirstReachableStep(const ArmedWorker& worker, uint64_t at_ns) {
  const v1::StepState& steps = *worker.steps;
  const double step_ns = steps.step_time_ms() * 1e6;
  // One step alone has no rate yet: it may just end, and the next one begin.
  if (!(step_ns > 0)) return Plus(steps.current(), 2);
  return Plus(steps.current(),
              std::ceil(kStepRateMargin * SinceStepBegan(worker, at_ns) / step_ns) + 1);
}

absl::StatusOr<std::optional<v1::StepWindow>> ChooseSteps(const StepsWanted& wanted,
                                                          const std::vector<ArmedWorker>& workers,
                                                          uint64_t at_ns) {
  std::optional<int64_t> first = wanted.first;
  for (const ArmedWorker& worker : workers) {
    if (!HasSteps(worker)) continue;
    const int64_t reachable = FirstReachableStep(worker, at_ns);
    if (!wanted.first.has_value()) {
      first = std::max(first.value_or(reachable), reachable);
    } else if (*wanted.first < reachable) {
      const int64_t current = worker.steps->current();
      return absl::OutOfRangeError(absl::StrCat(
          "step ", *wanted.first, " is over at worker ", worker.address, " (at step ", current,
          current < *wanted.first ? ", and its next ones come before it can be told" : "",
          "); give a later --start_step, or leave it out"));
    }
  }
  const bool any = std::any_of(workers.begin(), workers.end(), HasSteps);
  if (!any) return std::nullopt;
  v1::StepWindow window;
  window.set_first(*first);
  window.set_last(Plus(*first, static_cast<double>(wanted.count) - 1));
  return window;
}

absl::Duration UntilStep(int64_t step, const std::vector<ArmedWorker>& workers, uint64_t now_ns) {
  absl::Duration least = absl::InfiniteDuration();
  for (const ArmedWorker& worker : workers) {
    if (!HasSteps(worker)) continue;
    if (worker.steps->current() >= step) return absl::ZeroDuration();
    if (!(worker.steps->step_time_ms() > 0)) continue;
    const double steps = static_cast<double>(step) - static_cast<double>(worker.steps->current());
    const double ns = steps * worker.steps->step_time_ms() * 1e6 - SinceStepBegan(worker, now_ns);
    least = std::min(least, absl::Nanoseconds(std::max(ns, 0.0)));
  }
  return least;
}

uint64_t GrantedLookback(uint64_t wanted_ns, const std::vector<ArmedWorker>& workers) {
  uint64_t reach = 0;
  for (const ArmedWorker& worker : workers) {
    if (worker.streams) reach = std::max(reach, worker.lookback_ns);
  }
  return std::min(wanted_ns, reach);
}

}  // namespace jobscope
