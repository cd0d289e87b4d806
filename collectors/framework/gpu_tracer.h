// SPDX-License-Identifier: Apache-2.0
//
// Whether a framework traces the GPUs of a session. CUPTI has one subscriber per process: where it
// is ours, JAX and TensorFlow get no GPU events of their own, and with those no `hlo_op`, by which
// XProf ties kernels to operations.
#ifndef COLLECTORS_FRAMEWORK_GPU_TRACER_H_
#define COLLECTORS_FRAMEWORK_GPU_TRACER_H_

#include <string>

#include "common/options/device_tracer.h"
#include "common/options/framework_choice.h"

namespace jobscope::framework {

// What of frameworks that use GPUs the process has loaded.
struct GpuFrameworks {
  bool jax = false;         // its plugin for CUDA
  bool tensorflow = false;  // any build: those without CUDA never load the driver
  bool torch = false;       // with CUDA
};

// Takes the loader's lock, for microseconds.
GpuFrameworks FindGpuFrameworks();

// Why the session's GPUs are not traced by jobscope; empty: they are. "auto" leaves them to JAX and
// TensorFlow, where the session takes their events and PyTorch, which they know nothing of, uses no
// GPU in the same process.
std::string WhyFrameworkTraces(DeviceTracer tracer, const FrameworkChoice& choice,
                               const GpuFrameworks& loaded);

}  // namespace jobscope::framework

#endif  // COLLECTORS_FRAMEWORK_GPU_TRACER_H_
