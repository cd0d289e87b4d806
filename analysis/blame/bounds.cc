// SPDX-License-Identifier: Apache-2.0
#include "analysis/blame/bounds.h"

namespace jobscope::analysis {

const std::array<Bound, kStepClasses> kBounds = {{
    {StepClass::kInput, 0.10, "input-bound",
     "a loader that keeps up costs a hundredth of a step; from a tenth on it is worth the work"},
    {StepClass::kWaiting, 0.20, "bound by waiting",
     "ranks of equal speed still wait some percent for each other"},
    {StepClass::kTransfer, 0.25, "communication-bound",
     "communication that overlaps computation leaves less than this"},
    {StepClass::kDeviceCompute, 0.60, "device-bound",
     "above it other classes can win less than a factor of two and a half"},
    {StepClass::kDeviceCopy, 0.15, "copy-bound",
     "copies that overlap kernels do not count here at all"},
    {StepClass::kCompilation, 0.05, "compile-bound",
     "a program compiles once: in the middle of a run anything is too much"},
    {StepClass::kGarbageCollection, 0.05, "bound by garbage collection",
     "collections that do no harm take a hundredth"},
    {StepClass::kGil, 0.10, "bound by the GIL", "as much as a tenth is felt"},
    {StepClass::kNotRunning, 0.10, "short of CPU",
     "an idle machine gives a runnable thread a CPU within microseconds"},
    {StepClass::kHost, 0.50, "host-bound",
     "on a machine without devices all computation is host work"},
    {StepClass::kLaunch, 0.20, "launch-bound",
     "a device that is fed waits for launches less than this"},
    {StepClass::kUnexplained, 0.50, "unexplained", "half of the time without a name is no answer"},
}};

std::optional<StepClass> ChooseBound(
    const std::array<std::optional<double>, kStepClasses>& shares) {
  std::optional<StepClass> chosen;
  double most = 1;
  for (const Bound& bound : kBounds) {
    const std::optional<double>& share = shares[Index(bound.step_class)];
    if (!share.has_value() || *share < bound.threshold) continue;
    const double factor = *share / bound.threshold;
    if (chosen.has_value() && factor <= most) continue;
    most = factor;
    chosen = bound.step_class;
  }
  return chosen;
}

}  // namespace jobscope::analysis
