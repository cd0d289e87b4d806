// SPDX-License-Identifier: Apache-2.0
//
// Encodes the counters and allocators of a digest.
#ifndef ANALYSIS_DIGEST_DIGEST_COUNTERS_H_
#define ANALYSIS_DIGEST_DIGEST_COUNTERS_H_

#include "analysis/trace/allocator_samples.h"
#include "analysis/trace/counter_samples.h"
#include "jobscope/v1/digest.pb.h"

namespace jobscope::analysis {

void FillCounters(const CounterSamples& counters, v1::Digest* digest);
void FillAllocators(const AllocatorSamples& allocators, v1::Digest* digest);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_DIGEST_DIGEST_COUNTERS_H_
