// SPDX-License-Identifier: Apache-2.0
//
// Matches collectives of different workers.
#ifndef ANALYSIS_ALIGNMENT_MATCHING_H_
#define ANALYSIS_ALIGNMENT_MATCHING_H_

#include <cstddef>
#include <vector>

#include "analysis/alignment/worker_view.h"

namespace jobscope::analysis {

// One collective operation with the views of its members.
struct Match {
  struct Member {
    size_t worker = 0;      // index into the views
    size_t collective = 0;  // index into its collectives
  };
  std::vector<Member> members;  // at least two, sorted by worker
  bool complete = false;        // as many as the group has, if that is known
};

// Matches by process group and sequence number.
std::vector<Match> MatchBySequence(const std::vector<WorkerView>& views);

// Matches the collectives that could not be matched by sequence: those of one name and one ordinal
// within a common step are one operation. Leaves out a name if more than a tenth of its operations
// are missing in some of `workers`, and returns false then. `steps`: Alignment::steps.
bool MatchByOrdinal(const std::vector<WorkerView>& views, const std::vector<size_t>& workers,
                    const std::vector<std::vector<size_t>>& steps, std::vector<Match>* matches);

// Pairs collectives of the first of `workers` with those of each other one that end nearest to them
// on the common clock: all members end together, one transfer after the last arrival.
std::vector<Match> MatchByTime(const std::vector<WorkerView>& views,
                               const std::vector<size_t>& workers);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_ALIGNMENT_MATCHING_H_
