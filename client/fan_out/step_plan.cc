// SPDX-License-Identifier: Apache-2.0
#include "client/fan_out/step_plan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace jobscope {
namespace {

// Step durations vary: on a machine that was busy when they were counted, twice as many as expected
// may begin before an instant. Those that begin before it are clipped.
constexpr double kStepRateMargin = 2;
// Ordinals that differ by at most this belong to ranks that step together: one may be at the end of
// a step while another begins the next.
constexpr double kSameOrdinal = 1;

// Returns the time from the begin of the worker's newest known step to `at_ns`; the answer took
// `way_ns` to arrive.
double SinceStepBegan(const ArmedWorker& worker, uint64_t at_ns, double way_ns) {
  const double seen = at_ns > worker.steps_seen_ns
                          ? static_cast<double>(at_ns - worker.steps_seen_ns)
                          : -static_cast<double>(worker.steps_seen_ns - at_ns);
  return std::max(0.0, seen + way_ns + static_cast<double>(worker.steps->age_ns()));
}

double RoundTripNs(const ArmedWorker& worker) {
  return worker.clock.has_value() ? static_cast<double>(worker.clock->round_trip_ns) : 0.0;
}

// Adds without overflow, because numbers come from the wire. `steps` is not NaN.
int64_t Plus(int64_t number, double steps) {
  const double sum = static_cast<double>(number) + steps;
  constexpr double kLimit = 9.0e18;
  if (sum >= kLimit || steps >= kLimit) return INT64_MAX;
  if (sum <= -kLimit || steps <= -kLimit) return INT64_MIN;
  return number + static_cast<int64_t>(steps);
}

// Returns the worker's position in its own count: the newest step that it will have begun, plus the
// fraction of it that will have passed.
double CountAt(const ArmedWorker& worker, uint64_t at_ns) {
  const auto newest = static_cast<double>(NewestStep(worker));
  const double step_ns = worker.steps->step_time_ms() * 1e6;
  if (!(step_ns > 0)) return newest;
  return newest + SinceStepBegan(worker, at_ns, RoundTripNs(worker) / 2) / step_ns;
}

// The median, so that a single stalled worker does not change the result.
std::optional<double> MedianCount(const std::vector<ArmedWorker>& workers, bool by_ordinal,
                                  uint64_t at_ns) {
  std::vector<double> counts;
  for (const ArmedWorker& worker : workers) {
    if (HasSteps(worker) && ByOrdinal(worker) == by_ordinal) {
      counts.push_back(CountAt(worker, at_ns));
    }
  }
  if (counts.empty()) return std::nullopt;
  const auto middle = counts.begin() + static_cast<ptrdiff_t>(counts.size() / 2);
  std::nth_element(counts.begin(), middle, counts.end());
  return *middle;
}

// Returns the worker's own count minus the common one, in whole steps.
double OffsetOf(const StepPlan& plan, const ArmedWorker& worker) {
  if (!ByOrdinal(worker) || !plan.ordinal_count.has_value()) return 0;
  double own = CountAt(worker, plan.reference_ns) - *plan.ordinal_count;
  if (std::abs(own) <= kSameOrdinal) own = 0;
  const double offset = std::round(*plan.ordinal_count - plan.reference_count) + std::round(own);
  return std::isfinite(offset) ? offset : 0;  // rates come from the wire, too
}

// The common count uses numbers if any worker has rising ones.
bool CountsOrdinals(const std::vector<ArmedWorker>& workers) {
  return std::none_of(workers.begin(), workers.end(), [](const ArmedWorker& worker) {
    return HasSteps(worker) && !ByOrdinal(worker);
  });
}

}  // namespace

bool HasSteps(const ArmedWorker& worker) {
  return worker.streams && worker.steps.has_value() && worker.steps->begun() > 0 &&
         (worker.steps->increasing() || worker.steps->by_ordinal());
}

bool ByOrdinal(const ArmedWorker& worker) { return !worker.steps->increasing(); }

int64_t NewestStep(const ArmedWorker& worker) {
  if (!ByOrdinal(worker)) return worker.steps->current();
  return static_cast<int64_t>(std::min<uint64_t>(worker.steps->begun(), INT64_MAX));
}

int64_t FirstReachableStep(const ArmedWorker& worker, uint64_t at_ns) {
  const double step_ns = worker.steps->step_time_ms() * 1e6;
  // A single step has no rate yet: it may just end, and the next one begin.
  if (!(step_ns > 0)) return Plus(NewestStep(worker), 2);
  // The answer took at most the whole round trip.
  const double since = SinceStepBegan(worker, at_ns, RoundTripNs(worker));
  // After a pause (an evaluation, a checkpoint), the steps that did not begin do not follow at
  // once.
  const double unknown = std::max(0.0, since - static_cast<double>(worker.steps->age_ns()));
  return Plus(NewestStep(worker), std::min(std::ceil(kStepRateMargin * since / step_ns),
                                           std::ceil(kStepRateMargin * unknown / step_ns) + 1) +
                                      1);
}

bool CanMatch(const StepPlan& plan, const ArmedWorker& worker) {
  if (!ByOrdinal(worker)) return !plan.by_ordinal;
  return plan.by_ordinal || plan.ordinal_count.has_value();
}

v1::StepWindow WindowOf(const StepPlan& plan, const ArmedWorker& worker) {
  const double offset = OffsetOf(plan, worker);
  v1::StepWindow window;
  window.set_first(Plus(plan.first, offset));
  window.set_last(Plus(plan.last, offset));
  if (ByOrdinal(worker)) {
    window.set_by_ordinal(true);
    window.set_first(std::max<int64_t>(window.first(), 1));
    window.set_last(std::max(window.first(), window.last()));
  }
  return window;
}

v1::StepWindow WindowFrom(int64_t first, uint64_t count, const ArmedWorker& worker) {
  v1::StepWindow window;
  window.set_first(first);
  window.set_last(Plus(first, static_cast<double>(count) - 1));
  window.set_by_ordinal(ByOrdinal(worker));
  return window;
}

absl::StatusOr<std::optional<StepPlan>> ChooseSteps(const StepsWanted& wanted,
                                                    const std::vector<ArmedWorker>& workers,
                                                    uint64_t at_ns) {
  if (std::none_of(workers.begin(), workers.end(), HasSteps)) return std::nullopt;
  StepPlan plan;
  plan.by_ordinal = CountsOrdinals(workers);
  plan.reference_ns = at_ns;
  plan.reference_count = *MedianCount(workers, plan.by_ordinal, at_ns);
  if (!plan.by_ordinal || !wanted.first.has_value()) {
    plan.ordinal_count = MedianCount(workers, /*by_ordinal=*/true, at_ns);
  }
  std::optional<int64_t> first = wanted.first;
  for (const ArmedWorker& worker : workers) {
    if (!HasSteps(worker)) continue;
    const double offset = OffsetOf(plan, worker);
    const int64_t reachable = Plus(FirstReachableStep(worker, at_ns), -offset);
    if (!wanted.first.has_value()) {
      first = std::max(first.value_or(reachable), reachable);
    } else if (*wanted.first < reachable) {
      const int64_t current = Plus(NewestStep(worker), -offset);
      return absl::OutOfRangeError(absl::StrCat(
          "step ", *wanted.first, " is over at worker ", worker.address, " (at step ", current,
          current < *wanted.first ? ", and its next steps begin before the request can reach it"
                                  : "",
          "); give a later --start_step, or leave it out"));
    }
  }
  plan.first = *first;
  plan.last = Plus(*first, static_cast<double>(wanted.count) - 1);
  return plan;
}

int64_t FirstReachableByAll(const std::vector<ArmedWorker>& workers, uint64_t at_ns) {
  const bool ordinals = CountsOrdinals(workers);
  int64_t first = INT64_MIN;
  for (const ArmedWorker& worker : workers) {
    if (HasSteps(worker) && ByOrdinal(worker) == ordinals) {
      first = std::max(first, FirstReachableStep(worker, at_ns));
    }
  }
  return first;
}

int64_t NewestOfAll(const std::vector<ArmedWorker>& workers) {
  const bool ordinals = CountsOrdinals(workers);
  int64_t newest = INT64_MIN;
  for (const ArmedWorker& worker : workers) {
    if (HasSteps(worker) && ByOrdinal(worker) == ordinals) {
      newest = std::max(newest, NewestStep(worker));
    }
  }
  return newest;
}

}  // namespace jobscope
