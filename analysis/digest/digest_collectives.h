// SPDX-License-Identifier: Apache-2.0
//
// Packs the collectives of one worker into its digest.
#ifndef ANALYSIS_DIGEST_DIGEST_COLLECTIVES_H_
#define ANALYSIS_DIGEST_DIGEST_COLLECTIVES_H_

#include <vector>

#include "analysis/steps/intervals.h"
#include "analysis/trace/host_line.h"
#include "jobscope/v1/digest.pb.h"

namespace jobscope::analysis {

// Encodes the collectives, which are sorted by start. `blocked` comes from PartitionSteps;
// `accounts` are the times of the worker's steps.
void EncodeCollectives(const std::vector<CollectiveEvent>& collectives,
                       const std::vector<Intervals>& blocked, const std::vector<Interval>& accounts,
                       v1::DigestCollectives* out);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_DIGEST_DIGEST_COLLECTIVES_H_
