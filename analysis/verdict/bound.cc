// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/bound.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>

#include "analysis/blame/bounds.h"
#include "analysis/statistics/statistics.h"
#include "analysis/statistics/thresholds.h"
#include "analysis/verdict/cause.h"
#include "analysis/verdict/culprits.h"

namespace jobscope::analysis {
namespace {

using Shares = std::array<std::optional<double>, kStepClasses>;

bool IsMendable(StepClass step_class) {
  return step_class != StepClass::kHost && step_class != StepClass::kDeviceCompute &&
         step_class != StepClass::kUnexplained;
}

// Returns the steps of alignment.workers[i] that count for what all workers have in common.
std::vector<size_t> StepsOf(size_t i, const Report& report) {
  const Alignment& alignment = report.alignment;
  if (alignment.synchronous && alignment.common() >= kMinSteps) return alignment.steps[i];
  std::vector<size_t> all(report.workers[alignment.workers[i]].view.steps.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void AddTo(std::vector<double>* sums, const std::vector<double>& values) {
  sums->resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) (*sums)[i] += values[i];
}

// The times of several workers, over the steps that they have in common.
struct CommonTimes {
  // Of each worker, in ms per step.
  std::vector<double> steps;
  std::array<std::vector<double>, kStepClasses> classes;
  std::array<bool, kStepClasses> recorded = {};
  // Of each sample, over all workers. A sample is a step of all workers: ranks that wait for each
  // other are no independent samples. Of others the one with the fewest steps divides the time into
  // as many parts, and each worker weighs the same, as in the means.
  std::vector<double> all;
  std::array<std::vector<double>, kStepClasses> in_class;
};

CommonTimes TimesOf(const std::vector<size_t>& workers, const Report& report) {
  CommonTimes times;
  std::map<size_t, std::vector<size_t>> counted;  // steps of each worker
  size_t samples = SIZE_MAX;
  const Alignment& alignment = report.alignment;
  for (size_t i = 0; i < alignment.workers.size(); ++i) {
    const size_t w = alignment.workers[i];
    if (std::find(workers.begin(), workers.end(), w) == workers.end()) continue;
    counted[w] = StepsOf(i, report);
    samples = std::min(samples, counted[w].size());
  }
  for (const auto& [w, of_worker] : counted) {
    const WorkerView& view = report.workers[w].view;
    std::vector<double> values;
    for (const size_t s : of_worker) {
      values.push_back(static_cast<double>(view.steps[s].account_ns));
    }
    times.steps.push_back(Mean(values) / kNsPerMs);
    AddTo(&times.all, MeansOfParts(values, samples));
    for (size_t c = 0; c < kStepClasses; ++c) {
      times.recorded[c] = times.recorded[c] || !view.class_ns[c].empty();
      values.assign(of_worker.size(), 0);
      for (size_t s = 0; s < of_worker.size() && !view.class_ns[c].empty(); ++s) {
        values[s] = static_cast<double>(view.class_ns[c][of_worker[s]]);
      }
      times.classes[c].push_back(Mean(values) / kNsPerMs);
      AddTo(&times.in_class[c], MeansOfParts(values, samples));
    }
  }
  return times;
}

Shares SharesOf(const CommonTimes& times) {
  Shares shares;
  for (size_t c = 0; c < kStepClasses; ++c) {
    if (!times.recorded[c]) continue;
    // More than half of the workers have at least this share of it.
    std::vector<double> of_workers;
    for (size_t w = 0; w < times.steps.size(); ++w) {
      of_workers.push_back(times.steps[w] > 0 ? -times.classes[c][w] / times.steps[w] : 0);
    }
    shares[c] = std::min(Mean(times.classes[c]) / Mean(times.steps), -Quantile(of_workers, 0.5));
  }
  return shares;
}

StepClass LargestOf(const CommonTimes& times) {
  size_t largest = Index(StepClass::kUnexplained);
  for (size_t c = 0; c < kStepClasses; ++c) {
    if (times.recorded[c] && Mean(times.classes[c]) > Mean(times.classes[largest])) largest = c;
  }
  return static_cast<StepClass>(largest);
}

// Takes the time of a class out of the steps.
RareClass LeaveOut(StepClass step_class, CommonTimes* times) {
  const size_t c = Index(step_class);
  const std::vector<double>& in_class = times->in_class[c];
  RareClass rare;
  rare.step_class = step_class;
  rare.ms = Mean(times->classes[c]) * static_cast<double>(in_class.size());
  rare.steps = static_cast<size_t>(
      std::count_if(in_class.begin(), in_class.end(),
                    [mean = Mean(in_class)](double in_step) { return in_step > mean; }));
  rare.of_steps = in_class.size();
  for (size_t w = 0; w < times->steps.size(); ++w) times->steps[w] -= times->classes[c][w];
  for (size_t s = 0; s < times->all.size(); ++s) times->all[s] -= in_class[s];
  times->recorded[c] = false;
  return rare;
}

}  // namespace

Finding BoundOfWorkers(const std::vector<size_t>& workers, const Report& report) {
  Finding finding;
  finding.kind = Finding::Kind::kBalanced;
  CommonTimes times = TimesOf(workers, report);
  std::optional<StepClass> bound;
  Range gain;  // of a fix, at most: without that class at all
  while (Mean(times.steps) > 0) {
    bound = ChooseBound(SharesOf(times));
    if (!bound.has_value() || !IsMendable(*bound)) break;
    gain = BootstrapRatio(times.in_class[Index(*bound)], times.all);
    // Waiting has a cause of its own, whose steps the verdict tells.
    if (*bound == StepClass::kWaiting || gain.low >= kMinGainLow) break;
    finding.rare.push_back(LeaveOut(*bound, &times));
  }
  const double step_ms = Mean(times.steps);
  finding.step_ms = step_ms;
  if (step_ms <= 0) return finding;
  if (bound.has_value()) finding.kind = Finding::Kind::kBound;
  finding.step_class = bound.has_value() ? *bound : LargestOf(times);
  finding.class_ms = Mean(times.classes[Index(*finding.step_class)]);
  if (!bound.has_value() && finding.step_class == StepClass::kDeviceCompute) {
    times.recorded[Index(StepClass::kDeviceCompute)] = false;
    finding.next_class = LargestOf(times);
    finding.next_ms = Mean(times.classes[Index(*finding.next_class)]);
  }
  finding.names = FindCulprits(*finding.step_class, *finding.class_ms, workers, {}, report);
  NameSleep(workers, {}, report, &finding);
  if (!bound.has_value() || !IsMendable(*bound)) return finding;
  finding.gain = *finding.class_ms / step_ms;
  finding.mended_step_ms = step_ms - *finding.class_ms;
  finding.gain_low = gain.low;
  finding.gain_high = gain.high;
  return finding;
}

}  // namespace jobscope::analysis
