// SPDX-License-Identifier: Apache-2.0
//
// Blames ranks, which wait for each other.
#ifndef ANALYSIS_VERDICT_RANKS_H_
#define ANALYSIS_VERDICT_RANKS_H_

#include <vector>

#include "analysis/alignment/alignment.h"
#include "analysis/alignment/waits.h"
#include "analysis/blame/own_times.h"
#include "analysis/report/report.h"

namespace jobscope::analysis {

// Returns the ranks' own times in their common steps, and the transfer of these.
OwnTimes OwnTimesOf(const Alignment& alignment, const std::vector<MatchTimes>& matches,
                    const Report& report);

// Finds stragglers among ranks that wait for each other, and adds them to `report`. Those that are
// slow in many steps are found in `without_rare`, the report without rare time (rare.h), and its
// own times `times`; single long steps in `report` and `measured_times`, which have all time. If
// there is no rare time, `without_rare` is `report`, and both times are equal.
void BlameRanks(const OwnTimes& times, const OwnTimes& measured_times, const Alignment& alignment,
                const Report& without_rare, Report* report);

// Names who causes at least half of the waiting of `waiting_ms` per step, or says that most of it
// is within steps.
void NameLatest(double waiting_ms, const OwnTimes& times, const Alignment& alignment,
                Finding* waiting);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_RANKS_H_
