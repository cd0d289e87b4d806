// SPDX-License-Identifier: Apache-2.0
//
// Defines who traces GPUs in a capture: the values of --device_tracer.
#ifndef COMMON_OPTIONS_DEVICE_TRACER_H_
#define COMMON_OPTIONS_DEVICE_TRACER_H_

#include <string_view>

#include "absl/status/statusor.h"

namespace jobscope {

enum class DeviceTracer {
  kAuto,       // the framework's tracer if JAX or TensorFlow uses GPUs without PyTorch, else
               // jobscope
  kJobscope,   // the collector "cuda": exact loss counts, all libraries of the process
  kFramework,  // JAX's or TensorFlow's own tracer, which knows each kernel's HLO operation
};

// Parses a choice; empty text is "auto". INVALID_ARGUMENT describes the error without naming the
// flag or field that the text came from.
absl::StatusOr<DeviceTracer> ParseDeviceTracer(std::string_view text);
std::string_view DeviceTracerText(DeviceTracer tracer);

}  // namespace jobscope

#endif  // COMMON_OPTIONS_DEVICE_TRACER_H_
