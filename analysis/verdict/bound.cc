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

}  // namespace

Finding BoundOfWorkers(const std::vector<size_t>& workers, const Report& report) {
  Finding finding;
  finding.kind = Finding::Kind::kBalanced;
  // Of each worker, per step.
  std::vector<double> steps;
  std::array<std::vector<double>, kStepClasses> classes;
  std::array<bool, kStepClasses> recorded = {};
  std::map<size_t, std::vector<size_t>> counted;  // steps of each worker
  size_t samples = SIZE_MAX;
  const Alignment& alignment = report.alignment;
  for (size_t i = 0; i < alignment.workers.size(); ++i) {
    const size_t w = alignment.workers[i];
    if (std::find(workers.begin(), workers.end(), w) == workers.end()) continue;
    counted[w] = StepsOf(i, report);
    samples = std::min(samples, counted[w].size());
  }
  // A sample is a step of all workers: ranks that wait for each other are no independent samples.
  // Of others the one with the fewest steps divides the time into as many parts, and each worker
  // weighs the same, as in the means.
  std::array<std::vector<double>, kStepClasses> in_class;
  std::vector<double> all;
  for (const auto& [w, of_worker] : counted) {
    const WorkerView& view = report.workers[w].view;
    std::vector<double> values;
    for (const size_t s : of_worker) {
      values.push_back(static_cast<double>(view.steps[s].account_ns));
    }
    steps.push_back(Mean(values) / kNsPerMs);
    AddTo(&all, MeansOfParts(values, samples));
    for (size_t c = 0; c < kStepClasses; ++c) {
      recorded[c] = recorded[c] || !view.class_ns[c].empty();
      values.assign(of_worker.size(), 0);
      for (size_t s = 0; s < of_worker.size() && !view.class_ns[c].empty(); ++s) {
        values[s] = static_cast<double>(view.class_ns[c][of_worker[s]]);
      }
      classes[c].push_back(Mean(values) / kNsPerMs);
      AddTo(&in_class[c], MeansOfParts(values, samples));
    }
  }
  const double step_ms = Mean(steps);
  finding.step_ms = step_ms;
  if (step_ms <= 0) return finding;
  Shares shares;
  size_t largest = Index(StepClass::kUnexplained);
  for (size_t c = 0; c < kStepClasses; ++c) {
    if (!recorded[c]) continue;
    if (Mean(classes[c]) > Mean(classes[largest])) largest = c;
    // More than half of the workers have at least this share of it.
    std::vector<double> of_workers;
    for (size_t w = 0; w < steps.size(); ++w) {
      of_workers.push_back(steps[w] > 0 ? -classes[c][w] / steps[w] : 0);
    }
    shares[c] = std::min(Mean(classes[c]) / step_ms, -Quantile(of_workers, 0.5));
  }
  const std::optional<StepClass> bound = ChooseBound(shares);
  if (bound.has_value()) finding.kind = Finding::Kind::kBound;
  finding.step_class = bound.has_value() ? *bound : static_cast<StepClass>(largest);
  const size_t chosen = Index(*finding.step_class);
  finding.class_ms = Mean(classes[chosen]);
  finding.names = FindCulprits(*finding.step_class, *finding.class_ms, workers, {}, report);
  NameSleep(workers, {}, report, &finding);
  if (!bound.has_value() || !IsMendable(*bound)) return finding;
  // The upper bound of a fix: without that class at all.
  finding.gain = *finding.class_ms / step_ms;
  finding.mended_step_ms = step_ms - *finding.class_ms;
  const Range range = BootstrapRatio(in_class[chosen], all);
  finding.gain_low = range.low;
  finding.gain_high = range.high;
  return finding;
}

}  // namespace jobscope::analysis
