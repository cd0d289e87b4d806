// SPDX-License-Identifier: Apache-2.0
//
// Divides time blocked in collectives into waiting for others and transfer, once all members of a
// collective are known.
#ifndef ANALYSIS_VERDICT_WAITS_H_
#define ANALYSIS_VERDICT_WAITS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/verdict/alignment.h"
#include "analysis/verdict/worker_view.h"

namespace jobscope::analysis {

// One matched collective.
struct MatchTimes {
  // Who arrived last; absent where the clocks cannot tell.
  std::optional<size_t> last;
  int64_t wait_ns = 0;      // of all members
  int64_t transfer_ns = 0;  // the least that any member was blocked: needs no common clock
};

// Of one member: how much of `blocked` lies before `last_arrival_ns`. Pure.
int64_t BlockedBefore(const Intervals& blocked, int64_t last_arrival_ns);

// Same size as alignment.matches. Fills kWaiting and kTransfer of the views' classes. With clocks
// that agree the last arrival divides them; without, transfer is the least that a member was
// blocked, of a collective or of a whole step. What was not matched at all counts as transfer:
// `unmatched_ns` says how much that is.
std::vector<MatchTimes> SplitBlocked(const Alignment& alignment, std::vector<WorkerView>* views,
                                     std::vector<int64_t>* unmatched_ns);

// Per common step, in nanoseconds: the transfer of its collectives.
std::vector<double> TransferPerStep(const Alignment& alignment,
                                    const std::vector<WorkerView>& views,
                                    const std::vector<MatchTimes>& matches);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_WAITS_H_
