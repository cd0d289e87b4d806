// SPDX-License-Identifier: Apache-2.0
//
// Divides time blocked in collectives into waiting for others and transfer, once all members of a
// collective are known.
#ifndef ANALYSIS_ALIGNMENT_WAITS_H_
#define ANALYSIS_ALIGNMENT_WAITS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/alignment/alignment.h"
#include "analysis/alignment/worker_view.h"

namespace jobscope::analysis {

// Times of one matched collective.
struct MatchTimes {
  // The worker that arrived last; absent if the clocks cannot decide, or not all members are known.
  std::optional<size_t> last;
  int64_t wait_ns = 0;      // over all members
  int64_t transfer_ns = 0;  // the least time that any member was blocked; needs no common clock
};

// Returns how much of one member's `blocked` lies before `last_arrival_ns`. Pure function.
int64_t BlockedBefore(const Intervals& blocked, int64_t last_arrival_ns);

// Divides blocked time. Fills kWaiting and kTransfer of the views' classes; returns one element per
// alignment.matches. If clocks agree to less than half of what a collective blocks, the last
// arrival divides it; otherwise transfer is the least time that a member was blocked, in a
// collective or in a whole step. Unmatched time counts as transfer. `unsure_ns` gets, per worker,
// the transfer in collectives of which not all members are known: it may be waiting for one of
// those.
std::vector<MatchTimes> SplitBlocked(const Alignment& alignment, std::vector<WorkerView>* views,
                                     std::vector<int64_t>* unsure_ns);

// Returns, per common step, the transfer of its collectives in nanoseconds: that of the worker with
// the largest sum, because groups without a common member transfer at the same time.
std::vector<double> TransferPerStep(const Alignment& alignment,
                                    const std::vector<const WorkerView*>& views,
                                    const std::vector<MatchTimes>& matches);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_ALIGNMENT_WAITS_H_
