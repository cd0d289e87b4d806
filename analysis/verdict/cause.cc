// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/cause.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "analysis/statistics/statistics.h"
#include "analysis/statistics/thresholds.h"
#include "analysis/verdict/culprits.h"

namespace jobscope::analysis {
namespace {

// Returns the mean of a class over steps in ms; only over `steps` if given.
double ClassMean(const WorkerView& view, size_t c, const std::vector<size_t>& steps) {
  const std::vector<int64_t>& column = view.class_ns[c];
  if (column.empty() || steps.empty()) return 0;
  double sum = 0;
  for (const size_t step : steps) sum += static_cast<double>(column[step]);
  return sum / static_cast<double>(steps.size()) / kNsPerMs;
}

// A counter that shows a limit.
struct LimitCounter {
  StepClass step_class;  // that it makes longer
  Limit limit;
  std::string_view name;  // how it ends: the names of counters of GPUs begin with the GPU
  // Whether a worker's mean differs enough from the others' median to be a cause.
  bool (*counts)(double value, double others);
};

constexpr LimitCounter kLimitCounters[] = {
    // 1 or 0 per sample.
    {StepClass::kDeviceCompute, Limit::kHeat, "clocks limited by heat",
     [](double value, double others) { return value - others >= kMinLimitedSamples; }},
    {StepClass::kDeviceCompute, Limit::kPower, "clocks limited by power",
     [](double value, double others) { return value - others >= kMinLimitedSamples; }},
    {StepClass::kDeviceCompute, Limit::kClock, "SM clock (MHz)",
     [](double value, double others) { return value < kLowClock * others; }},
    // Percent of the quota's periods.
    {StepClass::kNotRunning, Limit::kQuota, "cgroup throttled (%)",
     [](double value, double others) { return value - others >= kMinThrottledPercent; }},
};

// Returns the mean of the counters of each of `workers` that has any whose name ends so.
std::vector<double> MeansOf(std::string_view name, const std::vector<size_t>& workers,
                            const Report& report) {
  std::vector<double> means;
  for (const size_t w : workers) {
    std::vector<double> of_worker;
    for (const v1::DigestCounter& counter : report.workers[w].view.digest->counters()) {
      if (absl::EndsWith(counter.name(), absl::string_view(name.data(), name.size()))) {
        of_worker.push_back(counter.mean());
      }
    }
    if (!of_worker.empty()) means.push_back(Mean(of_worker));
  }
  return means;
}

// The classes that contain the time of those that a worker does not know.
constexpr StepClass kRest[] = {StepClass::kLaunch, StepClass::kHost, StepClass::kUnexplained};
// Minimum time of a class that a worker does not know, as a share of the class that may contain it,
// at which the finding mentions it.
constexpr double kMinUnrecorded = 0.1;

bool IsRest(StepClass step_class) {
  return std::find(std::begin(kRest), std::end(kRest), step_class) != std::end(kRest);
}

// Returns the time of `worker` that would be in `kRest` if it knew only the classes of `slow`.
double RestMs(const MeanTimes& worker, const MeanTimes& slow) {
  double ms = 0;
  for (const StepClass rest : kRest) ms += worker[Index(rest)].value_or(0);
  for (size_t c = 0; c < kStepClasses; ++c) {
    if (!slow[c].has_value()) ms += worker[c].value_or(0);
  }
  return ms;
}

// Returns the class that the others know and `slow` do not, and that takes most of the others'
// time, if any does.
std::optional<StepClass> UnrecordedClass(const MeanTimes& slow, const OtherTimes& of_others) {
  std::optional<StepClass> unrecorded;
  double most_ms = 0;
  for (size_t c = 0; c < kStepClasses; ++c) {
    const double ms = slow[c].has_value() ? 0 : Median(of_others[c]);
    if (ms <= most_ms) continue;
    most_ms = ms;
    unrecorded = static_cast<StepClass>(c);
  }
  return unrecorded;
}

// Names the class of `kRest` with the largest excess over those of the others, if that is more than
// `most_ms`, and `kRest` as a whole, where the time of all that `slow` do not know is, takes `slow`
// longer than `others` by more than that, too.
void NameLargestOfRest(const MeanTimes& slow, const OtherTimes& of_others,
                       const std::vector<MeanTimes>& others, double most_ms, Finding* finding) {
  std::vector<double> rest_ms;
  for (const MeanTimes& other : others) rest_ms.push_back(RestMs(other, slow));
  if (RestMs(slow, slow) - Median(rest_ms) <= most_ms) return;
  for (const StepClass rest : kRest) {
    const size_t c = Index(rest);
    const double ms = slow[c].value_or(0) - Median(of_others[c]);
    if (ms <= most_ms) continue;
    most_ms = ms;
    finding->step_class = rest;
    finding->class_ms = slow[c];
    finding->class_others_ms.reset();
  }
}

}  // namespace

Excess ExcessIn(StepClass step_class, const MeanTimes& slow, const OtherTimes& others) {
  const std::vector<double>& of_others = others[Index(step_class)];
  double explained_ms = 0;  // by what only one side knows
  if (IsRest(step_class)) {
    for (size_t c = 0; c < kStepClasses; ++c) {
      if (!slow[c].has_value()) explained_ms += Median(others[c]);
    }
  }
  if (of_others.empty()) {
    for (const StepClass rest : kRest) {
      const size_t c = Index(rest);
      explained_ms += std::max(0.0, Median(others[c]) - slow[c].value_or(0));
    }
  }
  Excess excess;
  excess.ms = slow[Index(step_class)].value_or(0) - Median(of_others) - explained_ms;
  if (!of_others.empty() && explained_ms == 0) excess.others_ms = Median(of_others);
  return excess;
}

void NameLimits(const std::vector<size_t>& workers, const std::vector<size_t>& others,
                const Report& report, Finding* finding) {
  for (const LimitCounter& counter : kLimitCounters) {
    if (finding->step_class != counter.step_class) continue;
    const std::vector<double> of_workers = MeansOf(counter.name, workers, report);
    const std::vector<double> of_others = MeansOf(counter.name, others, report);
    if (of_workers.empty() || of_others.empty()) continue;
    const double value = Mean(of_workers);
    const double median = Median(of_others);
    if (counter.counts(value, median)) finding->limits.push_back({counter.limit, value, median});
  }
}

void NameSleep(const std::vector<size_t>& workers, const std::vector<size_t>& others,
               const Report& report, Finding* finding) {
  const StepClass step_class = finding->step_class.value_or(StepClass::kInput);
  if (step_class != StepClass::kHost && step_class != StepClass::kLaunch &&
      step_class != StepClass::kUnexplained) {
    return;
  }
  const auto times = [&](const std::vector<size_t>& of) {
    std::vector<double> asleep;
    for (const size_t w : of) {
      if (report.workers[w].asleep_ms.has_value()) asleep.push_back(*report.workers[w].asleep_ms);
    }
    return asleep;
  };
  const std::vector<double> of_workers = times(workers);
  const std::vector<double> of_others = times(others);
  if (of_workers.empty() || (of_others.empty() && !others.empty())) return;
  const double asleep_ms = Mean(of_workers);
  const double more_ms = asleep_ms - Median(of_others);
  if (more_ms > kMinAsleep * (*finding->class_ms - finding->class_others_ms.value_or(0))) {
    finding->asleep_ms = asleep_ms;
  }
}

void NameCause(const Alignment& alignment, const Report& report, const Straggler& straggler,
               Finding* finding) {
  std::array<std::vector<double>, kStepClasses> of_slow;
  OtherTimes of_others;
  std::vector<MeanTimes> times_of_others;
  std::vector<size_t> others;
  for (size_t i = 0; i < alignment.workers.size(); ++i) {
    const size_t w = alignment.workers[i];
    const bool slow =
        std::find(straggler.workers.begin(), straggler.workers.end(), i) != straggler.workers.end();
    std::vector<size_t> steps = alignment.steps[i];
    if (straggler.single) steps = {alignment.steps[i][straggler.step]};
    const WorkerView& view = report.workers[w].view;
    MeanTimes times;
    for (size_t c = 0; c < kStepClasses; ++c) {
      if (!view.Knows(static_cast<StepClass>(c))) continue;
      times[c] = ClassMean(view, c, steps);
      (slow ? of_slow : of_others)[c].push_back(*times[c]);
    }
    if (slow) continue;
    others.push_back(w);
    times_of_others.push_back(times);
  }
  MeanTimes slow;
  for (size_t c = 0; c < kStepClasses; ++c) {
    if (!of_slow[c].empty()) slow[c] = Mean(of_slow[c]);
  }
  double most = 0;
  for (size_t c = 0; c < kStepClasses; ++c) {
    const auto step_class = static_cast<StepClass>(c);
    if (step_class == StepClass::kWaiting || step_class == StepClass::kTransfer) continue;
    const Excess excess = ExcessIn(step_class, slow, of_others);
    if (excess.ms <= most) continue;
    most = excess.ms;
    finding->step_class = step_class;
    finding->class_ms = slow[c];
    finding->class_others_ms = excess.others_ms;
  }
  const size_t first = straggler.workers.front();
  const WorkerView& of_first = report.workers[alignment.workers[first]].view;
  const size_t step = alignment.steps[first][straggler.step];
  if (straggler.single) finding->single_step = of_first.steps[step].number;
  const std::optional<StepClass> unrecorded = UnrecordedClass(slow, of_others);
  if (unrecorded.has_value()) NameLargestOfRest(slow, of_others, times_of_others, most, finding);
  if (!finding->step_class.has_value()) return;
  if (unrecorded.has_value() && IsRest(*finding->step_class)) {
    const double others_ms = Median(of_others[Index(*unrecorded)]);
    if (others_ms >= kMinUnrecorded * *finding->class_ms) {
      finding->unrecorded_class = unrecorded;
      finding->unrecorded_others_ms = others_ms;
    }
  }
  if (!straggler.single) {
    NameSleep(finding->workers, others, report, finding);
    NameLimits(finding->workers, others, report, finding);
    finding->names =
        FindCulprits(*finding->step_class, *finding->class_ms, finding->workers, others, report);
    return;
  }
  if (std::optional<Culprit> top =
          TopOfStep(*finding->step_class, *finding->class_ms, of_first, step)) {
    finding->names = {*std::move(top)};
  }
}

}  // namespace jobscope::analysis
