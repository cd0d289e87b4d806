// SPDX-License-Identifier: Apache-2.0
//
// Digests one worker: a pass over its files for the figures, and a second one for the timeline.
#ifndef ANALYSIS_DIGEST_DIGEST_WORKER_H_
#define ANALYSIS_DIGEST_DIGEST_WORKER_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "analysis/trace/mapped_file.h"
#include "analysis/trace/run_files.h"
#include "jobscope/v1/digest.pb.h"

namespace jobscope::analysis {

// Opens a file of a trace. Tests pass functions that change the file.
using OpenFile = std::function<absl::StatusOr<MappedFile>(const std::string& path)>;

// Reads the files of `worker`. A file that cannot be read to its end becomes a warning of the
// digest, and the data before the error are used. A file that becomes unreadable while it is read
// is left out as a whole. Returns INVALID_ARGUMENT if no file could be read. Thread-safe.
absl::StatusOr<v1::Digest> DigestWorker(const RunWorker& worker,
                                        const OpenFile& open = MappedFile::Open);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_DIGEST_DIGEST_WORKER_H_
