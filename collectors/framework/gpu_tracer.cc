// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/gpu_tracer.h"

#include <link.h>

#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace jobscope::framework {
namespace {

bool BeginsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

int Note(dl_phdr_info* info, size_t, void* out) {
  auto* const found = static_cast<GpuFrameworks*>(out);
  const char* const slash =
      info->dlpi_name == nullptr ? nullptr : std::strrchr(info->dlpi_name, '/');
  const std::string_view name = slash == nullptr ? "" : slash + 1;
  if (BeginsWith(name, "xla_cuda_plugin.so")) found->jax = true;
  if (BeginsWith(name, "libtensorflow_framework.so")) found->tensorflow = true;
  if (BeginsWith(name, "libtorch_cuda.so")) found->torch = true;
  return 0;
}

}  // namespace

GpuFrameworks FindGpuFrameworks() {
  GpuFrameworks found;
  dl_iterate_phdr(&Note, &found);
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
