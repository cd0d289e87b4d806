// SPDX-License-Identifier: Apache-2.0
//
// Leaves time out of the steps that says nothing of the others: the compilation at the start of a
// program, one long read.
#ifndef ANALYSIS_VERDICT_RARE_H_
#define ANALYSIS_VERDICT_RARE_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "analysis/report/report.h"

namespace jobscope::analysis {

// Returns `report` without the time of each class that would bound `workers`, but that a fix may
// gain nothing from because it lies in a few steps. Of such a class the time in these steps is left
// out (Report::rare), and what workers wait in them for those that take longer of it. Absent: there
// is none.
std::optional<Report> WithoutRare(const std::vector<size_t>& workers, const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_RARE_H_
