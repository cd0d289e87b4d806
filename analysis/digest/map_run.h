// SPDX-License-Identifier: Apache-2.0
//
// Makes the digests of a run directory, by reading its traces or the digests written earlier.
#ifndef ANALYSIS_DIGEST_MAP_RUN_H_
#define ANALYSIS_DIGEST_MAP_RUN_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analysis/digest/digests.h"

namespace jobscope::analysis {

// Makes or reads the digests of `directory`, which holds a run or digests. Reads workers with as
// many threads as the machine has CPUs. Workers that cannot be read are in `missing`. NOT_FOUND:
// the directory holds no part of a run.
absl::StatusOr<Digests> ReadDigests(const std::string& directory);

// Writes one file per worker and run.digest into `directory`, which is created if necessary.
absl::Status WriteDigests(const Digests& digests, const std::string& directory);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_DIGEST_MAP_RUN_H_
