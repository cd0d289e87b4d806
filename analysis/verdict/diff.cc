// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/diff.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analysis/report/name_times.h"
#include "analysis/statistics/statistics.h"
#include "analysis/statistics/thresholds.h"

namespace jobscope::analysis {
namespace {

// The time that a step of a worker spends in something, in ns.
using NsOfStep = std::function<int64_t(const WorkerView& view, size_t step)>;

// Returns one sample per step of all workers together, in ms: see StepTimesOf.
std::vector<double> SamplesOf(const Report& report, const NsOfStep& ns_of_step) {
  const Alignment& alignment = report.alignment;
  if (alignment.workers.empty()) return {};
  std::vector<std::vector<double>> all_ms;
  size_t fewest = SIZE_MAX;
  for (size_t i = 0; i < alignment.workers.size(); ++i) {
    const WorkerView& view = report.workers[alignment.workers[i]].view;
    std::vector<double> of_worker;
    const size_t count = alignment.synchronous ? alignment.common() : view.steps.size();
    for (size_t s = 0; s < count; ++s) {
      const size_t step = alignment.synchronous ? alignment.steps[i][s] : s;
      of_worker.push_back(static_cast<double>(ns_of_step(view, step)) / kNsPerMs);
    }
    fewest = std::min(fewest, count);
    all_ms.push_back(std::move(of_worker));
  }
  // A worker with more steps had several in each part of the time.
  std::vector<double> samples(fewest);
  for (const std::vector<double>& of_worker : all_ms) {
    const std::vector<double> parts = MeansOfParts(of_worker, fewest);
    for (size_t s = 0; s < fewest; ++s) samples[s] += parts[s];
  }
  for (double& sample : samples) sample /= static_cast<double>(alignment.workers.size());
  return samples;
}

// Returns the samples of a class. Empty: no worker of the comparison has recorded it.
std::vector<double> ClassSamples(const Report& report, size_t c) {
  const std::vector<size_t>& workers = report.alignment.workers;
  const bool is_recorded = std::any_of(workers.begin(), workers.end(), [&](size_t w) {
    return !report.workers[w].view.class_ns[c].empty();
  });
  if (!is_recorded) return {};
  return SamplesOf(report, [c](const WorkerView& view, size_t step) {
    return view.class_ns[c].empty() ? int64_t{0} : view.class_ns[c][step];
  });
}

using Times = std::map<std::string, double>;  // ms per step, mean over workers

Times ClassTimes(const Report& report) {
  Times times;
  for (size_t c = 0; c < kStepClasses; ++c) {
    const std::vector<double> samples = ClassSamples(report, c);
    if (!samples.empty()) times[std::string(kClassNames[c])] = Mean(samples);
  }
  return times;
}

void AddClassDifferences(const Times& before, const Times& after,
                         std::vector<Difference>* differences) {
  const auto find = [](const Times& times, const std::string& name) {
    const auto found = times.find(name);
    return found != times.end() ? std::optional<double>(found->second) : std::nullopt;
  };
  Times all = before;
  all.insert(after.begin(), after.end());
  for (const auto& [name, ms] : all) {
    differences->push_back({name, find(before, name), find(after, name)});
  }
}

void AddNameDifferences(const NameTimes& before, const NameTimes& after,
                        std::vector<Difference>* differences) {
  Times all = before.recorded_ms();
  all.insert(after.recorded_ms().begin(), after.recorded_ms().end());
  for (const auto& [name, ms] : all) {
    const NameTime time_before = before.Of(name);
    const NameTime time_after = after.Of(name);
    if (!time_before.ms.has_value() && !time_after.ms.has_value()) continue;
    Difference difference{name, time_before.ms, time_after.ms};
    difference.before_at_most_ms = time_before.at_most_ms;
    difference.after_at_most_ms = time_after.at_most_ms;
    differences->push_back(std::move(difference));
  }
}

void SortByChange(std::vector<Difference>* differences) {
  // Unknown values sort below every change.
  std::stable_sort(differences->begin(), differences->end(),
                   [](const Difference& a, const Difference& b) {
                     return a.least_change_ms() > b.least_change_ms();
                   });
  constexpr size_t kMaxDifferences = 20;
  if (differences->size() > kMaxDifferences) differences->resize(kMaxDifferences);
}

size_t WorkersWithSteps(const Report& report) {
  size_t workers = 0;
  for (const WorkerRow& row : report.workers) workers += row.view.steps.empty() ? 0 : 1;
  return workers;
}

std::string ProgramOf(const Report& report) {
  for (const WorkerRow& row : report.workers) {
    const std::string& path = row.view.digest->executable();
    if (!path.empty()) return path.substr(path.rfind('/') + 1);
  }
  return {};
}

std::set<std::string> StepNames(const Report& report) {
  std::set<std::string> names;
  for (const WorkerRow& row : report.workers) {
    if (!row.view.steps.empty()) names.insert(row.view.digest->step_name());
  }
  return names;
}

// Adds the intervals of classes that both runs know.
void AddIntervals(const Report& before, const Report& after, std::vector<Difference>* classes) {
  for (size_t c = 0; c < kStepClasses; ++c) {
    const auto difference =
        std::find_if(classes->begin(), classes->end(),
                     [c](const Difference& other) { return other.name == kClassNames[c]; });
    if (difference == classes->end()) continue;
    const std::vector<double> samples_before = ClassSamples(before, c);
    const std::vector<double> samples_after = ClassSamples(after, c);
    if (samples_before.size() < kMinSteps || samples_after.size() < kMinSteps) continue;
    const Range range = BootstrapChange(samples_before, samples_after,
                                        [](double base, double now) { return now - base; });
    difference->low_ms = range.low;
    difference->high_ms = range.high;
  }
}

// Sorts [begin, end), which is sorted by change, so that classes whose change chance does not
// explain come first, unless their change explains little of the largest one.
void PutSureOnesFirst(std::vector<Difference>::iterator begin,
                      std::vector<Difference>::iterator end) {
  if (begin == end) return;
  const double largest_ms = std::fabs(begin->delta_ms().value_or(0));
  std::stable_partition(begin, end, [largest_ms](const Difference& difference) {
    const bool excludes_zero =
        difference.low_ms.value_or(0) > 0 || difference.high_ms.value_or(0) < 0;
    return excludes_zero &&
           std::fabs(difference.delta_ms().value_or(0)) >= kMinOfLargest * largest_ms;
  });
}

}  // namespace

std::optional<double> Difference::delta_ms() const {
  if (!before_ms.has_value() || !after_ms.has_value()) return std::nullopt;
  return *after_ms - *before_ms;
}

std::optional<double> Difference::least_change_ms() const {
  const std::optional<double> most_before = before_ms.has_value() ? before_ms : before_at_most_ms;
  const std::optional<double> most_after = after_ms.has_value() ? after_ms : after_at_most_ms;
  if (!most_before.has_value() || !most_after.has_value()) return std::nullopt;
  return std::max({0.0, before_ms.value_or(0) - *most_after, after_ms.value_or(0) - *most_before});
}

std::vector<double> StepTimesOf(const Report& report) {
  return SamplesOf(report,
                   [](const WorkerView& view, size_t step) { return view.steps[step].account_ns; });
}

RunDiff CompareSteps(const std::vector<double>& all_before, const std::vector<double>& all_after,
                     double gate) {
  RunDiff diff;
  if (!all_before.empty()) diff.before_ms = Mean(all_before);
  if (!all_after.empty()) diff.after_ms = Mean(all_after);
  const bool takes_time = diff.before_ms.value_or(0) > 0;
  if (takes_time && diff.after_ms.has_value()) diff.change = *diff.after_ms / *diff.before_ms - 1;
  if (all_before.size() < kMinSteps || all_after.size() < kMinSteps) {
    diff.why_inconclusive = absl::StrCat("fewer than ", kMinSteps, " steps in one of the runs");
    return diff;
  }
  if (!takes_time) {
    diff.why_inconclusive = "the steps of the run before take no time";
    return diff;
  }
  const Range range = BootstrapChange(
      all_before, all_after, [](double base, double now) { return base > 0 ? now / base - 1 : 0; });
  diff.change_low = range.low;
  diff.change_high = range.high;
  if (*diff.change_low > 0 && *diff.change >= gate) {
    diff.outcome = RunDiff::Outcome::kRegression;
  } else if (*diff.change_high < 0 && *diff.change <= -gate) {
    diff.outcome = RunDiff::Outcome::kImprovement;
  } else if (*diff.change_low > -gate && *diff.change_high < gate) {
    diff.outcome = RunDiff::Outcome::kNeutral;
  } else {
    diff.why_inconclusive = "steps vary too much for so small a change: capture more of them";
  }
  return diff;
}

namespace {

// `which`: "before" or "after".
void AddWarnings(const char* which, const Report& report, RunDiff* diff) {
  constexpr size_t kMaxWarnings = 10;
  std::vector<std::string> warnings;
  for (const Digests::Missing& missing : report.missing) {
    warnings.push_back(absl::StrCat(missing.worker, " is missing: ", missing.reason));
  }
  warnings.insert(warnings.end(), report.warnings.begin(), report.warnings.end());
  for (size_t i = 0; i < std::min(kMaxWarnings, warnings.size()); ++i) {
    diff->warnings.push_back(absl::StrCat(which, ": ", warnings[i]));
  }
  if (warnings.size() > kMaxWarnings) {
    diff->warnings.push_back(
        absl::StrCat(which, ": and ", warnings.size() - kMaxWarnings, " more warnings"));
  }
}

}  // namespace

RunDiff DiffRuns(const Report& before, const Report& after, double gate) {
  const std::vector<double> times_before = StepTimesOf(before);
  const std::vector<double> times_after = StepTimesOf(after);
  RunDiff diff = CompareSteps(times_before, times_after, gate);
  const auto too_few = [](const Report& report, const std::vector<double>& times) {
    return report.alignment.synchronous && times.size() < kMinSteps;
  };
  if (too_few(before, times_before) || too_few(after, times_after)) {
    diff.why_inconclusive =
        absl::StrCat("fewer than ", kMinSteps, " steps that all workers have, in one of the runs");
  }
  AddClassDifferences(ClassTimes(before), ClassTimes(after), &diff.classes);
  AddIntervals(before, after, &diff.classes);
  SortByChange(&diff.classes);
  auto end = diff.classes.end();
  if (before.alignment.synchronous && after.alignment.synchronous) {
    end = std::stable_partition(
        diff.classes.begin(), diff.classes.end(), [](const Difference& difference) {
          return difference.name != kClassNames[Index(StepClass::kWaiting)] &&
                 difference.delta_ms().has_value();
        });
  }
  PutSureOnesFirst(diff.classes.begin(), end);
  for (const bool kernels : {false, true}) {
    AddNameDifferences(NameTimes(before, kernels), NameTimes(after, kernels), &diff.names);
  }
  SortByChange(&diff.names);
  AddWarnings("before", before, &diff);
  AddWarnings("after", after, &diff);
  return diff;
}

std::string WhyUnlike(const Report& before, const Report& after) {
  const size_t workers_before = WorkersWithSteps(before);
  const size_t workers_after = WorkersWithSteps(after);
  if (workers_before != workers_after) {
    return absl::StrCat(workers_before, " and ", workers_after, " workers with steps");
  }
  const std::string program_before = ProgramOf(before);
  const std::string program_after = ProgramOf(after);
  if (!program_before.empty() && !program_after.empty() && program_before != program_after) {
    return absl::StrCat("programs ", program_before, " and ", program_after);
  }
  if (StepNames(before) != StepNames(after)) return "their steps have different names";
  return {};
}

const char* OutcomeName(RunDiff::Outcome outcome) {
  switch (outcome) {
    case RunDiff::Outcome::kNeutral:
      return "neutral";
    case RunDiff::Outcome::kRegression:
      return "regression";
    case RunDiff::Outcome::kImprovement:
      return "improvement";
    case RunDiff::Outcome::kInconclusive:
      break;
  }
  return "inconclusive";
}

}  // namespace jobscope::analysis
