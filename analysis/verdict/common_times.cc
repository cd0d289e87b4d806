// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/common_times.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "analysis/statistics/statistics.h"
#include "analysis/statistics/thresholds.h"

namespace jobscope::analysis {
namespace {

// Returns the steps of a worker that count for what all workers have in common.
std::vector<size_t> StepsOf(size_t worker, const Report& report) {
  const Alignment& alignment = report.alignment;
  const auto place = std::find(alignment.workers.begin(), alignment.workers.end(), worker);
  if (AreInStep(alignment) && place != alignment.workers.end()) {
    return alignment.steps[static_cast<size_t>(place - alignment.workers.begin())];
  }
  std::vector<size_t> all(report.workers[worker].view.steps.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void AddTo(std::vector<double>* sums, const std::vector<double>& values) {
  sums->resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) (*sums)[i] += values[i];
}

}  // namespace

bool AreInStep(const Alignment& alignment) {
  return alignment.synchronous && alignment.common() >= kMinSteps;
}

CommonTimes TimesOf(const std::vector<size_t>& workers, const Report& report) {
  CommonTimes times;
  size_t samples = SIZE_MAX;
  for (const size_t w : workers) {
    const std::vector<size_t>& of_worker = times.counted[w] = StepsOf(w, report);
    samples = std::min(samples, of_worker.size());
  }
  for (const auto& [w, of_worker] : times.counted) {
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

bool TransferIsUnsure(const std::vector<size_t>& workers, const Report& report) {
  int64_t unsure_ns = 0;
  int64_t transfer_ns = 0;
  for (const size_t w : workers) {
    unsure_ns += report.workers[w].unsure_ns;
    for (const int64_t ns : report.workers[w].view.class_ns[Index(StepClass::kTransfer)]) {
      transfer_ns += ns;
    }
  }
  return 2 * unsure_ns > transfer_ns;
}

size_t UnknownWorkers(const Report& report) {
  return report.missing.size() + report.workers.size() - report.alignment.workers.size() -
         report.alignment.apart.size();
}

}  // namespace jobscope::analysis
