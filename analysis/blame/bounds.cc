// SPDX-License-Identifier: Apache-2.0
#include "analysis/blame/bounds.h"

#include "analysis/statistics/thresholds.h"

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
     "without a device all computation is host work; with one, the threshold of launches holds"},
    {StepClass::kLaunch, 0.20, "launch-bound",
     "a device that is fed waits for launches less than this"},
    {StepClass::kUnexplained, 0.50, "unexplained", "half of the time without a name is no answer"},
}};

namespace {

bool UsesDevice(const Shares& shares) {
  return shares[Index(StepClass::kDeviceCompute)].value_or(0) >= kMinDeviceShare;
}

// Returns the share of a class as a multiple of its threshold.
double OfThreshold(StepClass step_class, const Shares& shares) {
  const bool idles_device = step_class == StepClass::kHost && UsesDevice(shares);
  const Bound& bound = BoundOf(idles_device ? StepClass::kLaunch : step_class);
  return shares[Index(step_class)].value_or(0) / bound.threshold;
}

}  // namespace

std::optional<StepClass> ChooseBound(const Shares& shares) {
  std::optional<StepClass> chosen;
  double most = 0;
  for (size_t c = 0; c < kStepClasses; ++c) {
    const auto step_class = static_cast<StepClass>(c);
    const double factor = OfThreshold(step_class, shares);
    if (factor < 1 || factor <= most) continue;
    most = factor;
    chosen = step_class;
  }
  return chosen;
}

bool IsBound(StepClass step_class, const Shares& shares) {
  return OfThreshold(step_class, shares) >= 1;
}

bool IsMendable(StepClass step_class, const Shares& shares) {
  if (step_class == StepClass::kHost) return UsesDevice(shares);
  return step_class != StepClass::kDeviceCompute && step_class != StepClass::kUnexplained;
}

}  // namespace jobscope::analysis
