// SPDX-License-Identifier: Apache-2.0
//
// Builds a worker's digest from what was read of its traces.
#ifndef ANALYSIS_DIGEST_DIGEST_BUILDER_H_
#define ANALYSIS_DIGEST_DIGEST_BUILDER_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "analysis/trace/mapped_file.h"
#include "analysis/trace/run_files.h"
#include "analysis/trace/trace_reader.h"
#include "jobscope/v1/digest.pb.h"

namespace jobscope::analysis {

inline constexpr uint32_t kDigestSchema = 3;

// Builds the digest; consumes `trace`. Facts that the manifest lacks may come from the worker's own
// trace.
v1::Digest BuildDigest(const RunWorker& worker, WorkerTrace* trace);

// Reads the files of `worker`. A file that cannot be read to its end becomes a warning of the
// digest, and the data before the error are used. Returns an error if no file could be read.
// A file that becomes unreadable while it is read is left out as a whole. `open` is another
// function only in tests, which change files then.
using OpenFile = std::function<absl::StatusOr<MappedFile>(const std::string& path)>;
absl::StatusOr<v1::Digest> DigestWorker(const RunWorker& worker,
                                        const OpenFile& open = MappedFile::Open);

// Returns the run's part of the digests.
v1::RunDigest RunDigestOf(const RunFiles& run);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_DIGEST_DIGEST_BUILDER_H_
