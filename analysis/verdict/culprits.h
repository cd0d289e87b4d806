// SPDX-License-Identifier: Apache-2.0
//
// Finds the scopes, operators and kernels in which workers spend the time of a class.
#ifndef ANALYSIS_VERDICT_CULPRITS_H_
#define ANALYSIS_VERDICT_CULPRITS_H_

#include <optional>
#include <vector>

#include "analysis/report/report.h"

namespace jobscope::analysis {

// Returns at most three culprits, largest first: self time per step of `workers` (their mean),
// minus the median of those of `others` that know the class, if there are any. Where digests left
// out names, the least that this can be. Omits names that explain less than a tenth of `class_ms`.
// Empty for a class without names.
std::vector<Culprit> FindCulprits(StepClass step_class, double class_ms,
                                  const std::vector<size_t>& workers,
                                  const std::vector<size_t>& others, const Report& report);

// Returns the name of the step thread that took most of one step, if its time is of `step_class`
// and at least a tenth of `class_ms`. A digest has no other name of a single step, and none of a
// device.
std::optional<Culprit> TopOfStep(StepClass step_class, double class_ms, const WorkerView& view,
                                 size_t step);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_CULPRITS_H_
