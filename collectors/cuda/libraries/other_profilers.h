// SPDX-License-Identifier: Apache-2.0
//
// Detects other holders of CUPTI's only subscription in this process.
#ifndef COLLECTORS_CUDA_LIBRARIES_OTHER_PROFILERS_H_
#define COLLECTORS_CUDA_LIBRARIES_OTHER_PROFILERS_H_

#include <string>

#include "absl/time/time.h"

namespace jobscope::cuda {

struct OtherProfiler {
  enum Kind {
    kUnknown,
    // A tool that was injected into the process and stays: nsys, ncu, …
    kInjected,
    // PyTorch's profiler Kineto, idle, and nobody else could be subscribed: until 2026-08 it takes
    // the CUPTI subscription on first use, also in jobscope's own captures, and keeps it to the end
    // of the process, although it does not need it between its recordings.
    kKineto,
    kKinetoRecords,
  };
  Kind kind = kUnknown;
  // Of kInjected: the file name; of kUnknown: the candidates, if there are several.
  std::string name;
};

// Returns the file name of the straggler detector of nvidia-resiliency-ext; empty: it is not
// loaded. It never subscribes, and registers its buffers with CUPTI once: a capture would replace
// them for the rest of the job.
std::string FindStragglerDetector();

// Returns whether a PyTorch with CUDA support is loaded: its Kineto may subscribe at any time.
bool PyTorchHasCuda();

// Returns the framework that is loaded and has a tracer of XLA's, JAX or TensorFlow; empty: none.
// That tracer frees each buffer that CUPTI returns, also those of others. A TensorFlow beside a
// PyTorch with CUDA does not count: mostly TensorBoard needs it, and it has no GPUs.
std::string FindXla();

// Searches the loaded libraries, and asks PyTorch whether its profiler records. Blocks for at most
// `timeout` until it has ended, because jobscope's own captures run it briefly. PyTorch before 2.2
// cannot be queried and counts as idle. Acquires the loader's lock.
OtherProfiler FindOtherProfiler(absl::Duration timeout);

// Returns whether torch.profiler records. Does not block, except for the loader's lock when it
// first finds PyTorch. Its warm-up does not count.
bool TorchProfilerRecords();

// The same, but waits for nothing, and acquires no lock of the loader. False until
// FindOtherProfiler or TorchProfilerRecords has found PyTorch.
bool TorchProfilerIsKnownToRecord();

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_LIBRARIES_OTHER_PROFILERS_H_
