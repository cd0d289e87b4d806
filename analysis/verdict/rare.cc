// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/rare.h"

#include <algorithm>
#include <cstdint>

#include "analysis/blame/bounds.h"
#include "analysis/statistics/statistics.h"
#include "analysis/statistics/thresholds.h"
#include "analysis/verdict/common_times.h"

namespace jobscope::analysis {
namespace {

// Returns a class that exceeds the threshold of a bound, but whose gain is not certain (the lower
// end of its interval is below kMinGainLow).
std::optional<StepClass> RareIn(const std::vector<size_t>& workers, const CommonTimes& times,
                                const Report& report) {
  if (Mean(times.steps) <= 0) return std::nullopt;
  const Shares shares = SharesOf(times);
  for (size_t c = 0; c < kStepClasses; ++c) {
    const auto step_class = static_cast<StepClass>(c);
    if (!IsMendable(step_class, shares) || !IsBound(step_class, shares)) continue;
    // Excludes waiting: it has another cause, whose steps the verdict names.
    if (step_class == StepClass::kWaiting) continue;
    // Excludes transfer if unknown workers or members may cause it.
    if (step_class == StepClass::kTransfer &&
        (UnknownWorkers(report) > 0 || TransferIsUnsure(workers, report))) {
      continue;
    }
    if (BootstrapRatio(times.in_class[c], times.all).low < kMinGainLow) return step_class;
  }
  return std::nullopt;
}

// Returns the samples with more of a class than the mean.
std::vector<size_t> SamplesWith(StepClass step_class, const CommonTimes& times) {
  const std::vector<double>& in_class = times.in_class[Index(step_class)];
  const double mean = Mean(in_class);
  std::vector<size_t> samples;
  for (size_t s = 0; s < in_class.size(); ++s) {
    if (in_class[s] > mean) samples.push_back(s);
  }
  return samples;
}

int64_t NsOf(StepClass step_class, size_t step, const WorkerView& view) {
  const std::vector<int64_t>& column = view.class_ns[Index(step_class)];
  return column.empty() ? 0 : column[step];
}

// Returns by how much a step of workers that wait for each other is shorter without a class.
int64_t ShorterBy(StepClass step_class, size_t sample, const CommonTimes& times,
                  const Report& report) {
  if (!AreInStep(report.alignment) || step_class == StepClass::kTransfer) return 0;
  int64_t with_ns = 0;
  int64_t without_ns = 0;
  for (const auto& [w, steps] : times.counted) {
    const WorkerView& view = report.workers[w].view;
    const int64_t own_ns = view.own_ns(steps[sample]);
    with_ns = std::max(with_ns, own_ns);
    without_ns = std::max(without_ns, own_ns - NsOf(step_class, steps[sample], view));
  }
  return with_ns - without_ns;
}

// Takes a class, and the waiting that it causes, out of a step that is shorter by `shorter_ns`
// without it. Returns the time of the class.
int64_t TakeOut(StepClass step_class, int64_t shorter_ns, size_t step, WorkerView* view) {
  const auto take = [&](StepClass from, int64_t ns) {
    if (ns <= 0) return;
    view->class_ns[Index(from)][step] -= ns;
    view->steps[step].account_ns -= ns;
    const bool is_blocked = from == StepClass::kWaiting || from == StepClass::kTransfer;
    if (is_blocked) view->blocked_ns[step] -= ns;
  };
  const int64_t ns = NsOf(step_class, step, *view);
  take(step_class, ns);
  take(StepClass::kWaiting, std::min(shorter_ns - ns, NsOf(StepClass::kWaiting, step, *view)));
  return ns;
}

// Takes a class out of `samples`.
RareClass LeaveOut(StepClass step_class, const std::vector<size_t>& samples,
                   const CommonTimes& times, Report* report) {
  RareClass rare;
  rare.step_class = step_class;
  const size_t all = times.all.size();
  const bool are_steps =
      std::all_of(times.counted.begin(), times.counted.end(),
                  [&](const auto& of_worker) { return of_worker.second.size() == all; });
  if (are_steps) {
    rare.steps = samples.size();
    rare.of_steps = all;
  }
  for (const size_t sample : samples) {
    const int64_t shorter_ns = ShorterBy(step_class, sample, times, *report);
    for (const auto& [w, steps] : times.counted) {
      // A sample is one step, or a part of the steps of workers with different numbers of them.
      const size_t end = (sample + 1) * steps.size() / all;
      for (size_t s = sample * steps.size() / all; s < end; ++s) {
        const int64_t ns = TakeOut(step_class, shorter_ns, steps[s], &report->workers[w].view);
        rare.ms += static_cast<double>(ns) / kNsPerMs / static_cast<double>(times.counted.size());
      }
    }
  }
  return rare;
}

}  // namespace

std::optional<Report> WithoutRare(const std::vector<size_t>& workers, const Report& report) {
  std::optional<Report> rest;
  for (;;) {
    const Report& left = rest.has_value() ? *rest : report;
    const CommonTimes times = TimesOf(workers, left);
    const std::optional<StepClass> step_class = RareIn(workers, times, left);
    if (!step_class.has_value()) break;
    const std::vector<size_t> samples = SamplesWith(*step_class, times);
    if (samples.empty()) break;
    if (!rest.has_value()) rest = report;
    const RareClass rare = LeaveOut(*step_class, samples, times, &*rest);
    const auto known =
        std::find_if(rest->rare.begin(), rest->rare.end(),
                     [&](const RareClass& other) { return other.step_class == *step_class; });
    if (known == rest->rare.end()) {
      rest->rare.push_back(rare);
    } else {
      known->ms += rare.ms;
      known->steps += rare.steps;
    }
  }
  if (!rest.has_value()) return rest;
  for (const size_t w : workers) SetFigures(&rest->workers[w]);
  return rest;
}

}  // namespace jobscope::analysis
