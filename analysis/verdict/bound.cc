// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/bound.h"

#include <optional>

#include "analysis/blame/bounds.h"
#include "analysis/statistics/statistics.h"
#include "analysis/verdict/cause.h"
#include "analysis/verdict/common_times.h"
#include "analysis/verdict/culprits.h"

namespace jobscope::analysis {
namespace {

// Returns the time per step in which the device of the workers does nothing, if the steps use one.
std::optional<double> DeviceIdleMs(const CommonTimes& times) {
  if (Mean(times.classes[Index(StepClass::kDeviceCompute)]) <= 0) return std::nullopt;
  double idle_ms = Mean(times.steps);
  for (const StepClass busy : {StepClass::kDeviceCompute, StepClass::kDeviceCopy,
                               StepClass::kWaiting, StepClass::kTransfer}) {
    idle_ms -= Mean(times.classes[Index(busy)]);
  }
  return idle_ms;
}

StepClass LargestOf(const CommonTimes& times) {
  size_t largest = Index(StepClass::kUnexplained);
  for (size_t c = 0; c < kStepClasses; ++c) {
    if (times.recorded[c] && Mean(times.classes[c]) > Mean(times.classes[largest])) largest = c;
  }
  return static_cast<StepClass>(largest);
}

}  // namespace

Finding BoundOfWorkers(const std::vector<size_t>& workers, const Report& report) {
  Finding finding;
  finding.kind = Finding::Kind::kBalanced;
  finding.rare = report.rare;
  CommonTimes times = TimesOf(workers, report);
  const double step_ms = Mean(times.steps);
  finding.step_ms = step_ms;
  if (step_ms <= 0) return finding;
  const Shares shares = SharesOf(times);
  const std::optional<StepClass> bound = ChooseBound(shares);
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
  if (!bound.has_value() || !IsMendable(*bound, shares)) return finding;
  if (*bound == StepClass::kHost || *bound == StepClass::kLaunch) {
    finding.device_idle_ms = DeviceIdleMs(times);
  }
  // Of a fix, at most: without that class at all.
  const Range gain = BootstrapRatio(times.in_class[Index(*bound)], times.all);
  finding.gain = *finding.class_ms / step_ms;
  finding.mended_step_ms = step_ms - *finding.class_ms;
  finding.gain_low = gain.low;
  finding.gain_high = gain.high;
  return finding;
}

}  // namespace jobscope::analysis
