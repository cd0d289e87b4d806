// SPDX-License-Identifier: Apache-2.0
//
// Builds a worker's digest from what was read of its traces.
#ifndef ANALYSIS_DIGEST_DIGEST_BUILDER_H_
#define ANALYSIS_DIGEST_DIGEST_BUILDER_H_

#include "analysis/trace/run_files.h"
#include "analysis/trace/trace_reader.h"
#include "jobscope/v1/digest.pb.h"

namespace jobscope::analysis {

inline constexpr uint32_t kDigestSchema = 1;

// `trace` is consumed. What the manifest does not tell of the worker its own trace may.
v1::Digest BuildDigest(const RunWorker& worker, WorkerTrace* trace);

// Reads the files of `worker`. A file that cannot be read to its end is a warning of the digest,
// and what was read before is used; an error if none could be read.
absl::StatusOr<v1::Digest> DigestWorker(const RunWorker& worker);

// The run as digests keep it.
v1::RunDigest RunDigestOf(const RunFiles& run);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_DIGEST_DIGEST_BUILDER_H_
