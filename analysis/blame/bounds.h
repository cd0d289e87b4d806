// SPDX-License-Identifier: Apache-2.0
//
// The table of what can bound a worker.
#ifndef ANALYSIS_BLAME_BOUNDS_H_
#define ANALYSIS_BLAME_BOUNDS_H_

#include <array>
#include <optional>
#include <string_view>

#include "analysis/steps/step_class.h"

namespace jobscope::analysis {

struct Bound {
  StepClass step_class;
  double threshold;         // minimum share of the step
  std::string_view title;   // "input-bound"
  std::string_view reason;  // of the threshold
};

// One entry per class, in the order of StepClass.
extern const std::array<Bound, kStepClasses> kBounds;

inline const Bound& BoundOf(StepClass step_class) { return kBounds[Index(step_class)]; }

// Returns the class that exceeds its threshold by the largest factor, if any does. `shares` are
// parts of the mean step by class; absent: not recorded.
std::optional<StepClass> ChooseBound(const std::array<std::optional<double>, kStepClasses>& shares);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_BLAME_BOUNDS_H_
