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
  std::string library;     // this one and no other, if it is not empty; from JOBSCOPE_CUPTI_LIBRARY
  int driver_version = 0;  // as cuDriverGetVersion; a libcupti of a later major fails with it
};

// Where a libcupti may lie, best first: absolute paths and bare names for the dynamic linker. The
// copies that are mapped already are not among them. Exposed for tests.
std::vector<std::string> CuptiCandidates(const LoadOptions& options);

// Paths of libcupti copies that are mapped into the process.
std::vector<std::string> MappedCupti();

// The process's libcupti: a copy that is mapped already wins over everything but an explicit
// library, because two copies in one process disturb each other. Opens at most one new library, and
// never unloads it: it lives as long as the process, as the returned table does. The error says
// where was looked. Takes the loader's lock, reads the disk; about 5 ms for a library that is not
// mapped. Thread-safe.
absl::StatusOr<const CuptiApi*> LoadCupti(const LoadOptions& options);

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_LIBRARIES_LOADER_H_
