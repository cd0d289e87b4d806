// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/culprits.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "analysis/digest/digest_names.h"
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

double PerStepMs(uint64_t ns, const WorkerView& view) {
  return static_cast<double>(ns) / static_cast<double>(view.steps.size()) / kNsPerMs;
}

// Calls `callback(name, ms per step of `step_class`)` for the names that the digest of a worker
// has; 0 ms: it takes nothing of the class.
template <typename Callback>
void ForEachName(const WorkerView& view, StepClass step_class, Callback&& callback) {
  if (view.steps.empty()) return;
  for (const v1::DigestName& name :
       IsOfDevice(step_class) ? view.digest->kernels() : view.digest->operators()) {
    callback(name, PerStepMs(NsOf(name, step_class), view));
  }
}

// Returns the most that a name takes per step of which the digest has nothing; 0: it has all.
double LeftOutMs(const WorkerView& view, StepClass step_class) {
  if (view.steps.empty()) return 0;
  return PerStepMs(LargestLeftOutNs(*view.digest, IsOfDevice(step_class)), view);
}

struct NameOfClass {
  Culprit culprit;
  bool is_of_class = false;  // the rest of the input is inside a wait
  // The most that the digests that have the name can leave out of another one, mean of the workers.
  double not_left_out_ms = 0;
  // The other workers whose digest has the name: index and ms per step.
  std::vector<std::pair<size_t, double>> of_others;
};

// Sets the others' median. A digest without the name proves only that it takes less than the
// names that the digest has: `left_out_ms`, by other worker.
void SetOthers(const std::vector<double>& left_out_ms, NameOfClass* name) {
  if (left_out_ms.empty()) return;
  std::vector<double> least_ms(left_out_ms.size(), 0);
  std::vector<double> most_ms = left_out_ms;
  for (const auto& [other, ms] : name->of_others) least_ms[other] = most_ms[other] = ms;
  Culprit& culprit = name->culprit;
  const double least = Median(std::move(least_ms));
  const double most = Median(std::move(most_ms));
  if (most - least <= kMaxDoubt * culprit.ms) {
    culprit.others_ms = least;
  } else {
    culprit.others_at_most_ms = most;
  }
}

}  // namespace

std::vector<Culprit> FindCulprits(StepClass step_class, double class_ms,
                                  const std::vector<size_t>& workers,
                                  const std::vector<size_t>& others, const Report& report) {
  if (!HasNames(step_class)) return {};
  const auto count = static_cast<double>(workers.size());
  std::unordered_map<std::string, NameOfClass> found;
  double all_left_out_ms = 0;
  for (const size_t w : workers) {
    const WorkerView& view = report.workers[w].view;
    const double left_out_ms = LeftOutMs(view, step_class) / count;
    all_left_out_ms += left_out_ms;
    ForEachName(view, step_class, [&](const v1::DigestName& name, double ms) {
      NameOfClass& of_name = found[name.name()];
      of_name.not_left_out_ms += left_out_ms;
      if (ms <= 0) return;
      Culprit& culprit = of_name.culprit;
      culprit.name = name.name();
      if (name.class_() == static_cast<uint32_t>(step_class)) of_name.is_of_class = true;
      if (culprit.source.empty()) culprit.source = name.source();
      culprit.ms += ms / count;
      if (step_class == StepClass::kCompilation) culprit.compilations += name.count();
    });
  }
  std::vector<double> left_out_ms;  // by other worker that knows the class
  for (const size_t w : others) {
    const WorkerView& view = report.workers[w].view;
    if (!view.Knows(step_class)) continue;
    const size_t other = left_out_ms.size();
    left_out_ms.push_back(LeftOutMs(view, step_class));
    ForEachName(view, step_class, [&](const v1::DigestName& name, double ms) {
      const auto known = found.find(name.name());
      if (known != found.end()) known->second.of_others.emplace_back(other, ms);
    });
  }
  std::vector<Culprit> culprits;
  for (auto& [name, of_name] : found) {
    Culprit& culprit = of_name.culprit;
    if (culprit.ms <= 0) continue;
    culprit.at_least = all_left_out_ms - of_name.not_left_out_ms > kMaxDoubt * culprit.ms;
    SetOthers(left_out_ms, &of_name);
    culprits.push_back(std::move(culprit));
  }
  // The least that it can be.
  const auto excess = [](const Culprit& culprit) {
    return culprit.ms - culprit.others_ms.value_or(culprit.others_at_most_ms.value_or(0));
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
                        [&](const Culprit& culprit) { return found.at(culprit.name).is_of_class; });
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
