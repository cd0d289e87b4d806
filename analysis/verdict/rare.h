// SPDX-License-Identifier: Apache-2.0
//
// Removes rare time from the steps: a class in so few steps that it says nothing about the others,
// such as compilation at the start.
#ifndef ANALYSIS_VERDICT_RARE_H_
#define ANALYSIS_VERDICT_RARE_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "analysis/report/report.h"

namespace jobscope::analysis {

// Returns `report` without the rare classes of `workers` and the waiting that they cause;
// Report::rare lists them. nullopt: there are none.
std::optional<Report> WithoutRare(const std::vector<size_t>& workers, const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_RARE_H_
