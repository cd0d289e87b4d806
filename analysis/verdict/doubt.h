// SPDX-License-Identifier: Apache-2.0
//
// Decides whether a run allows an answer, and says why not.
#ifndef ANALYSIS_VERDICT_DOUBT_H_
#define ANALYSIS_VERDICT_DOUBT_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/report/report.h"

namespace jobscope::analysis {

Finding Undecidable(std::string why, std::string_view advice);

// Returns why lost events may hide what takes the time of `workers`; empty: they cannot. Only the
// workers that make the class count: those that spend at least half of the mean in it.
std::string WhyLossesDecide(const std::vector<size_t>& workers, const Finding& finding,
                            const Report& report);

// Returns the finding for a worker that spends much time in collectives with unknown members.
Finding WaitOrLink(size_t worker, const Report& report);

// Returns what takes the place of `finding` if its cause is not reliable. `others`: with which its
// workers are compared.
std::optional<Finding> WhyNotSure(const Finding& finding, const std::vector<size_t>& others,
                                  const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_DOUBT_H_
