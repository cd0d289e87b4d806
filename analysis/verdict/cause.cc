// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/cause.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "analysis/statistics/statistics.h"
#include "analysis/verdict/culprits.h"

namespace jobscope::analysis {
namespace {

// Returns whether a worker in which nothing recorded this class may have spent time in it: a
// collector that it does not have records it.
bool MayBeUnknown(size_t c) {
  return c == Index(StepClass::kNotRunning) || c == Index(StepClass::kDeviceCompute) ||
         c == Index(StepClass::kDeviceCopy);
}

// Returns the mean of a class over steps in ms; only over `steps` if given.
double ClassMean(const WorkerView& view, size_t c, const std::vector<size_t>& steps) {
  const std::vector<int64_t>& column = view.class_ns[c];
  if (column.empty() || steps.empty()) return 0;
  double sum = 0;
  for (const size_t step : steps) sum += static_cast<double>(column[step]);
  return sum / static_cast<double>(steps.size()) / kNsPerMs;
}

// A counter that tells of a limit.
struct LimitCounter {
  StepClass step_class;  // that it makes longer
  Limit limit;
  std::string_view name;  // how it ends: the names of counters of GPUs begin with the GPU
  // Whether a worker's mean differs enough from the others' median to be a cause.
  bool (*counts)(double value, double others);
};

constexpr LimitCounter kLimitCounters[] = {
    // 1 or 0 per sample: a fifth of the samples more than the others.
    {StepClass::kDeviceCompute, Limit::kHeat, "clocks limited by heat",
     [](double value, double others) { return value - others >= 0.2; }},
    {StepClass::kDeviceCompute, Limit::kPower, "clocks limited by power",
     [](double value, double others) { return value - others >= 0.2; }},
    // Boost clocks of equal GPUs differ by a few percent.
    {StepClass::kDeviceCompute, Limit::kClock, "SM clock (MHz)",
     [](double value, double others) { return value < 0.93 * others; }},
    // Percent of the quota's periods.
    {StepClass::kNotRunning, Limit::kQuota, "cgroup throttled (%)",
     [](double value, double others) { return value - others >= 5; }},
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

}  // namespace

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
  const double asleep_ms = Mean(times(workers));
  const double more_ms = asleep_ms - Median(times(others));
  constexpr double kMost = 0.5;
  if (more_ms > kMost * (*finding->class_ms - finding->class_others_ms.value_or(0))) {
    finding->asleep_ms = asleep_ms;
  }
}

void NameCause(const Alignment& alignment, const Report& report, const Straggler& straggler,
               Finding* finding) {
  std::vector<double> of_slow(kStepClasses, 0);
  std::vector<std::vector<double>> of_others(kStepClasses);
  std::vector<size_t> others;
  for (size_t i = 0; i < alignment.workers.size(); ++i) {
    const size_t w = alignment.workers[i];
    const bool slow =
        std::find(straggler.workers.begin(), straggler.workers.end(), i) != straggler.workers.end();
    std::vector<size_t> steps = alignment.steps[i];
    if (straggler.single) steps = {alignment.steps[i][straggler.step]};
    for (size_t c = 0; c < kStepClasses; ++c) {
      const double mean = ClassMean(report.workers[w].view, c, steps);
      if (slow) {
        of_slow[c] += mean / static_cast<double>(straggler.workers.size());
      } else if (!report.workers[w].view.class_ns[c].empty() || !MayBeUnknown(c)) {
        of_others[c].push_back(mean);
      }
    }
    if (!slow) others.push_back(w);
  }
  double most = 0;
  for (size_t c = 0; c < kStepClasses; ++c) {
    if (c == Index(StepClass::kWaiting) || c == Index(StepClass::kTransfer)) continue;
    const double median = Median(of_others[c]);
    if (of_slow[c] - median <= most) continue;
    most = of_slow[c] - median;
    finding->step_class = static_cast<StepClass>(c);
    finding->class_ms = of_slow[c];
    finding->class_others_ms.reset();
    if (!of_others[c].empty()) finding->class_others_ms = median;
  }
  if (!finding->step_class.has_value()) return;
  if (!straggler.single) {
    NameSleep(finding->workers, others, report, finding);
    NameLimits(finding->workers, others, report, finding);
    finding->names =
        FindCulprits(*finding->step_class, *finding->class_ms, finding->workers, others, report);
    return;
  }
  const size_t i = straggler.workers.front();
  const WorkerRow& row = report.workers[alignment.workers[i]];
  const size_t step = alignment.steps[i][straggler.step];
  finding->single_step = row.view.steps[step].number;
  if (std::optional<Culprit> top =
          TopOfStep(*finding->step_class, *finding->class_ms, row.view, step)) {
    finding->names = {*std::move(top)};
  }
}

}  // namespace jobscope::analysis
