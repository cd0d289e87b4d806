// SPDX-License-Identifier: Apache-2.0
//
// Lists the classes of time that can bound a worker, with their thresholds.
#ifndef ANALYSIS_BLAME_BOUNDS_H_
#define ANALYSIS_BLAME_BOUNDS_H_

#include <array>
#include <optional>
#include <string_view>

#include "analysis/steps/step_class.h"

namespace jobscope::analysis {

// The share of each class in the mean step; absent: not recorded.
using Shares = std::array<std::optional<double>, kStepClasses>;

struct Bound {
  StepClass step_class;
  double threshold;         // minimum share of the step
  std::string_view title;   // "input-bound"
  std::string_view reason;  // of the threshold
};

// One entry per class, in the order of StepClass.
extern const std::array<Bound, kStepClasses> kBounds;

inline const Bound& BoundOf(StepClass step_class) { return kBounds[Index(step_class)]; }

// Returns the class that reaches its threshold, or exceeds it by the largest factor, if any does.
std::optional<StepClass> ChooseBound(const Shares& shares);

// Returns whether a class reaches its threshold. In steps that use a device, host work leaves it
// idle as launches do, and has their threshold.
bool IsBound(StepClass step_class, const Shares& shares);

// Returns whether a fix can gain the time of a class. Host work is the computation itself, except
// in steps that use a device: it is recorded as such only while the device is idle.
bool IsMendable(StepClass step_class, const Shares& shares);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_BLAME_BOUNDS_H_
