// SPDX-License-Identifier: Apache-2.0
//
// Encodes single steps of a digest, for the report's timelines.
#ifndef ANALYSIS_DIGEST_DIGEST_TIMELINE_H_
#define ANALYSIS_DIGEST_DIGEST_TIMELINE_H_

#include <cstddef>
#include <vector>

#include "analysis/steps/intervals.h"
#include "analysis/trace/timeline_reader.h"
#include "jobscope/v1/digest.pb.h"

namespace jobscope::analysis {

// The steps whose events a digest keeps, sorted: those with the largest accounts, those with the
// largest own time, and a sample by number, so that all workers keep the same ones.
std::vector<size_t> TimelineSteps(const v1::DigestSteps& steps);

// The account of each of `steps`.
Intervals TimelineWindows(const v1::DigestSteps& packed, const std::vector<size_t>& steps);

// Packs what `reader` found; its windows are those of `steps`.
void EncodeTimeline(const std::vector<size_t>& steps, TimelineReader* reader,
                    v1::DigestTimeline* out);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_DIGEST_DIGEST_TIMELINE_H_
