// SPDX-License-Identifier: Apache-2.0
//
// Builds a worker's digest from what was read of its traces.
#ifndef ANALYSIS_DIGEST_DIGEST_BUILDER_H_
#define ANALYSIS_DIGEST_DIGEST_BUILDER_H_

#include <cstdint>

#include "analysis/trace/run_files.h"
#include "analysis/trace/trace_reader.h"
#include "jobscope/v1/digest.pb.h"

namespace jobscope::analysis {

// The schema of both messages of digest.proto. It increases when a field changes its meaning; the
// report rejects digests with any other.
inline constexpr uint32_t kDigestSchema = 3;

// Builds the digest; consumes `trace`. Facts that the manifest lacks may come from the worker's own
// trace.
v1::Digest BuildDigest(const RunWorker& worker, WorkerTrace* trace);

// Returns the number of lost records of GPU work and of calls into CUDA. Leaves out work that had
// not ended when the window did (gpu_unfinished): it lies behind the last step.
uint64_t LostOfDevices(const v1::Digest& digest);

// Returns the run's part of the digests.
v1::RunDigest RunDigestOf(const RunFiles& run);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_DIGEST_DIGEST_BUILDER_H_
