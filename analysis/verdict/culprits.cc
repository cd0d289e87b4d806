// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/culprits.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "analysis/statistics/statistics.h"
#include "analysis/statistics/thresholds.h"

namespace jobscope::analysis {
namespace {

constexpr size_t kMaxCulprits = 3;

bool HasNames(StepClass step_class) {
  return step_class != StepClass::kNotRunning && step_class != StepClass::kUnexplained &&
         step_class != StepClass::kWaiting;
}

bool IsOfDevice(StepClass step_class) {
  return step_class == StepClass::kDeviceCompute || step_class == StepClass::kDeviceCopy;
}

// Returns the time of a name in a class, within steps. All time inside an input wait is input,
// regardless of its name. The wait itself counts as a whole, so it ranks before what is inside it.
uint64_t NsOf(const v1::DigestName& name, StepClass step_class) {
  const bool is_of_class = name.class_() == static_cast<uint32_t>(step_class);
  if (step_class == StepClass::kInput) {
    return std::max(name.input_ns(), is_of_class ? name.step_self_ns() : 0);
  }
  return is_of_class ? name.step_self_ns() - std::min(name.step_self_ns(), name.input_ns()) : 0;
}

// Calls `callback(name, ms per step)` for the names of `step_class` in one worker.
template <typename Callback>
void ForEachName(const WorkerView& view, StepClass step_class, Callback&& callback) {
  if (view.steps.empty()) return;
  const double per_step = static_cast<double>(view.steps.size()) * kNsPerMs;
  for (const v1::DigestName& name :
       IsOfDevice(step_class) ? view.digest->kernels() : view.digest->operators()) {
    const uint64_t ns = NsOf(name, step_class);
    if (ns > 0) callback(name, static_cast<double>(ns) / per_step);
  }
}

}  // namespace

std::vector<Culprit> FindCulprits(StepClass step_class, double class_ms,
                                  const std::vector<size_t>& workers,
                                  const std::vector<size_t>& others, const Report& report) {
  if (!HasNames(step_class)) return {};
  std::unordered_map<std::string, Culprit> found;
  std::set<std::string> of_class;  // the rest of the input is inside a wait
  for (const size_t w : workers) {
    ForEachName(report.workers[w].view, step_class, [&](const v1::DigestName& name, double ms) {
      Culprit& culprit = found[name.name()];
      culprit.name = name.name();
      if (name.class_() == static_cast<uint32_t>(step_class)) of_class.insert(name.name());
      if (culprit.source.empty()) culprit.source = name.source();
      culprit.ms += ms / static_cast<double>(workers.size());
      if (step_class == StepClass::kCompilation) culprit.compilations += name.count();
    });
  }
  std::unordered_map<std::string, std::vector<double>> of_others;
  size_t compared = 0;  // others that know the class
  for (const size_t w : others) {
    if (!report.workers[w].view.Knows(step_class)) continue;
    ++compared;
    ForEachName(report.workers[w].view, step_class, [&](const v1::DigestName& name, double ms) {
      if (found.count(name.name()) != 0) of_others[name.name()].push_back(ms);
    });
  }
  std::vector<Culprit> culprits;
  for (auto& [name, culprit] : found) {
    if (compared > 0) {
      std::vector<double>& times = of_others[name];
      times.resize(compared, 0);  // workers without the name
      culprit.others_ms = Median(times);
    }
    culprits.push_back(std::move(culprit));
  }
  const auto excess = [](const Culprit& culprit) {
    return culprit.ms - culprit.others_ms.value_or(0);
  };
  std::sort(culprits.begin(), culprits.end(), [&](const Culprit& a, const Culprit& b) {
    return excess(a) != excess(b) ? excess(a) > excess(b) : a.name < b.name;
  });
  while (!culprits.empty() && (culprits.size() > kMaxCulprits || excess(culprits.back()) <= 0 ||
                               excess(culprits.back()) < kMinOfLargest * excess(culprits.front()) ||
                               culprits.back().ms < kMinOfLargest * class_ms)) {
    culprits.pop_back();
  }
  std::stable_partition(culprits.begin(), culprits.end(),
                        [&](const Culprit& culprit) { return of_class.count(culprit.name) != 0; });
  return culprits;
}

std::optional<Culprit> TopOfStep(StepClass step_class, double class_ms, const WorkerView& view,
                                 size_t step) {
  if (!HasNames(step_class) || IsOfDevice(step_class)) return std::nullopt;
  const v1::DigestSteps& steps = view.digest->steps();
  const uint32_t place = steps.top_name(static_cast<int>(step));
  if (place == 0 || place > static_cast<uint32_t>(view.digest->operators_size())) {
    return std::nullopt;
  }
  const v1::DigestName& name = view.digest->operators(static_cast<int>(place) - 1);
  if (NsOf(name, step_class) == 0) return std::nullopt;  // it takes nothing of this class
  Culprit culprit;
  culprit.name = name.name();
  culprit.source = name.source();
  culprit.ms = static_cast<double>(steps.top_self_ns(static_cast<int>(step))) / kNsPerMs;
  if (culprit.ms < kMinOfLargest * class_ms) return std::nullopt;
  return culprit;
}

}  // namespace jobscope::analysis
