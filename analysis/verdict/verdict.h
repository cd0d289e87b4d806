// SPDX-License-Identifier: Apache-2.0
//
// Decides which worker is slow and why, or what bounds all of them.
#ifndef ANALYSIS_VERDICT_VERDICT_H_
#define ANALYSIS_VERDICT_VERDICT_H_

#include <vector>

#include "analysis/alignment/alignment.h"
#include "analysis/alignment/waits.h"
#include "analysis/report/report.h"

namespace jobscope::analysis {

// Fills `verdict` and `findings` of `report` from its workers. Leaves `text`, `why` and the advice
// of decided findings to verdict_text.h. `matches`: the times of alignment.matches, in the same
// order.
void FindVerdict(const Alignment& alignment, const std::vector<MatchTimes>& matches,
                 Report* report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_VERDICT_H_
