// SPDX-License-Identifier: Apache-2.0
//
// Finds what bounds the steps of several workers together.
#ifndef ANALYSIS_VERDICT_BOUND_H_
#define ANALYSIS_VERDICT_BOUND_H_

#include <cstddef>
#include <vector>

#include "analysis/report/report.h"

namespace jobscope::analysis {

// Returns what bounds `workers`, taken together: a class that exceeds its threshold over all of
// them and in most of them. If none does, the finding is balanced, and has the largest class.
Finding BoundOfWorkers(const std::vector<size_t>& workers, const Report& report);

// Returns what bounds all workers together, if nobody stands out, or why that is unknown.
Finding BoundOfAll(const std::vector<size_t>& workers, const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_BOUND_H_
