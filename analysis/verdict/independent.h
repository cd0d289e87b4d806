// SPDX-License-Identifier: Apache-2.0
//
// Compares workers that do not wait for each other.
#ifndef ANALYSIS_VERDICT_INDEPENDENT_H_
#define ANALYSIS_VERDICT_INDEPENDENT_H_

#include <vector>

#include "analysis/report/report.h"

namespace jobscope::analysis {

// Finds, among workers without collectives, those whose steps take longer than the others', each
// with its own cause.
void CompareIndependent(const std::vector<size_t>& candidates, Report* report);

// Finds a worker without collectives that is slow, but recorded too few steps for a comparison: the
// others alone are not the answer.
void DoubtSlowOnesWithFewSteps(const std::vector<size_t>& measured, Report* report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_INDEPENDENT_H_
