// SPDX-License-Identifier: Apache-2.0
//
// Who else in this process may hold CUPTI's one subscription.
#ifndef COLLECTORS_CUDA_LIBRARIES_OTHER_PROFILERS_H_
#define COLLECTORS_CUDA_LIBRARIES_OTHER_PROFILERS_H_

#include <string>

#include "absl/time/time.h"

namespace jobscope::cuda {

struct OtherProfiler {
  enum Kind {
    kUnknown,
    // A tool that was loaded into the process from outside, and stays: nsys, ncu, …
    kInjected,
    // PyTorch's profiler, Kineto: until 2026-08 it takes the subscription when it is first used, by
    // our own captures too, and keeps it to the end of the process. It needs it for nothing between
    // its recordings.
    kKineto,
    kKinetoRecords,
  };
  Kind kind = kUnknown;
  std::string name;  // of kInjected: a file's
};

// Looks at what is loaded into the process, and asks PyTorch whether its profiler records; waits
// for the end of that for at most `timeout`, because our own captures run it for a moment. PyTorch
// before 2.2 cannot be asked: it counts as idle. Takes the loader's lock.
OtherProfiler FindOtherProfiler(absl::Duration timeout);

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_LIBRARIES_OTHER_PROFILERS_H_
