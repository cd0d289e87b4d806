// SPDX-License-Identifier: Apache-2.0
//
// Decides whether a framework or jobscope traces the GPUs of a session. CUPTI has one subscriber
// per process: if that is jobscope, JAX and TensorFlow get no GPU events of their own, and so no
// `hlo_op`, by which XProf maps kernels to operations.
#ifndef COLLECTORS_FRAMEWORK_GPU_TRACER_H_
#define COLLECTORS_FRAMEWORK_GPU_TRACER_H_

#include <string>

#include "common/options/device_tracer.h"
#include "common/options/framework_choice.h"

namespace jobscope::framework {

// Frameworks with GPU support that the process has loaded.
struct GpuFrameworks {
  bool jax = false;         // JAX's CUDA plugin
  bool tensorflow = false;  // any build; those without CUDA never load the driver
  bool torch = false;       // with CUDA
};

// Finds them. Acquires the loader's lock for microseconds.
GpuFrameworks FindGpuFrameworks();

// Returns why the session's GPUs are not traced by jobscope; empty: they are. "auto" leaves them to
// JAX and TensorFlow if the session takes their events, and PyTorch, which they do not cover, uses
// no GPU in the same process.
std::string WhyFrameworkTraces(DeviceTracer tracer, const FrameworkChoice& choice,
                               const GpuFrameworks& loaded);

}  // namespace jobscope::framework

#endif  // COLLECTORS_FRAMEWORK_GPU_TRACER_H_
