// SPDX-License-Identifier: Apache-2.0
//
// Finds libcupti.
#ifndef COLLECTORS_CUDA_LIBRARIES_LOADER_H_
#define COLLECTORS_CUDA_LIBRARIES_LOADER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectors/cuda/libraries/cupti_api.h"

namespace jobscope::cuda {

struct LoadOptions {
  std::string library;     // JOBSCOPE_CUPTI_LIBRARY; if not empty, only this one is tried
  int driver_version = 0;  // as from cuDriverGetVersion; a libcupti of a later major fails with it
};

// Returns where a libcupti may be, best first: absolute paths, and bare names for the dynamic
// linker. Omits copies that are mapped already. Exposed for tests.
std::vector<std::string> CuptiCandidates(const LoadOptions& options);

// Returns the paths of libcupti copies that are mapped into the process.
std::vector<std::string> MappedCupti();

// Returns the process's libcupti. A copy that is mapped already has priority over everything but an
// explicit library, because two copies in one process interfere. Opens at most one new library and
// never unloads it: it and the returned table live as long as the process. The error lists the
// places that were searched. Acquires the loader's lock, reads the disk; takes about 5 ms for an
// unmapped library. Thread-safe.
absl::StatusOr<const CuptiApi*> LoadCupti(const LoadOptions& options);

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_LIBRARIES_LOADER_H_
