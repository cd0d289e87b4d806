// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/gpu_tracer.h"

#include "absl/strings/str_cat.h"
#include "common/process/loaded_libraries.h"

namespace jobscope::framework {
GpuFrameworks FindGpuFrameworks() {
  GpuFrameworks found;
  found.jax = !FindLoadedLibrary("xla_cuda_plugin.so").empty();
  found.tensorflow = !FindLoadedLibrary("libtensorflow_framework.so").empty();
  found.torch = !FindLoadedLibrary("libtorch_cuda.so").empty();
  return found;
}

std::string WhyFrameworkTraces(DeviceTracer tracer, const FrameworkChoice& choice,
                               const GpuFrameworks& loaded) {
  if (tracer == DeviceTracer::kJobscope) return {};
  const bool jax = loaded.jax && choice.Takes("jax");
  const bool tensorflow = loaded.tensorflow && choice.Takes("tensorflow");
  if (tracer == DeviceTracer::kAuto && (loaded.torch || !(jax || tensorflow))) return {};
  if (!jax && !tensorflow) {
    return "--device_tracer=framework, and neither JAX nor TensorFlow takes part; with "
           "--device_tracer=jobscope GPUs are traced";
  }
  return absl::StrCat(jax ? "JAX" : "TensorFlow",
                      " traces its GPUs itself, with the operation of each kernel; "
                      "--device_tracer=jobscope traces all of the process, with exact loss");
}

}  // namespace jobscope::framework
