// SPDX-License-Identifier: Apache-2.0
//
// Configures the collector of GPU activity.
#ifndef COLLECTORS_CUDA_CUDA_OPTIONS_H_
#define COLLECTORS_CUDA_CUDA_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "collectors/collector.h"
#include "collectors/cuda/cuda_session.h"
#include "collectors/cuda/events/step_timeline.h"
#include "collectors/cuda/tracing/finalize_policy.h"

namespace jobscope {

struct CudaCollectorOptions {
  std::string cupti_library;                    // JOBSCOPE_CUPTI_LIBRARY: load only this file
  uint64_t buffer_bytes = uint64_t{256} << 20;  // JOBSCOPE_CUDA_BUFFER_MB: cap of trace buffers
  bool unified_memory = false;                  // JOBSCOPE_CUDA_UNIFIED_MEMORY=1
  // JOBSCOPE_CUDA_DEVICE_BUFFER_MB: cap of CUPTI's memory on the GPU, per context.
  uint64_t device_buffer_bytes = uint64_t{64} << 20;
  cuda::FinalizeChoice finalize = cuda::FinalizeChoice::kNever;  // JOBSCOPE_CUPTI_FINALIZE
  cuda::RecentSteps steps;  // the process's step source; empty: none
  cuda::SessionLimits limits;
  // Returns why another tracer traces this session's GPUs; empty text: none does. Called at Arm, if
  // a driver is in use. Empty function: no other tracer.
  std::function<std::string(const ArmRequest&)> other_tracer;
  // Lets captures end before the exit handlers that are registered by now run. Called at Arm, for
  // each libcupti that it loads: those of CUPTI and of the driver end what Stop calls. Empty
  // function: captures end before the exit.
  std::function<void()> precede_exit_handlers;

  // Reads the environment; invalid values leave the default.
  static CudaCollectorOptions FromEnvironment();
};

}  // namespace jobscope

#endif  // COLLECTORS_CUDA_CUDA_OPTIONS_H_
