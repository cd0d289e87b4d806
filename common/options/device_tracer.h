// SPDX-License-Identifier: Apache-2.0
//
// Who traces GPUs in a capture: the words of --device_tracer.
#ifndef COMMON_OPTIONS_DEVICE_TRACER_H_
#define COMMON_OPTIONS_DEVICE_TRACER_H_

#include <string_view>

#include "absl/status/statusor.h"

namespace jobscope {

enum class DeviceTracer {
  kAuto,       // JAX or TensorFlow where they use GPUs without PyTorch, else jobscope
  kJobscope,   // the collector "cuda": exact loss, all libraries of the process
  kFramework,  // JAX's or TensorFlow's own tracer, which knows the HLO operation of each kernel
};

// Empty text is "auto". INVALID_ARGUMENT says what is wrong with the text, without naming the flag
// or field it came from.
absl::StatusOr<DeviceTracer> ParseDeviceTracer(std::string_view text);
std::string_view DeviceTracerText(DeviceTracer tracer);

}  // namespace jobscope

#endif  // COMMON_OPTIONS_DEVICE_TRACER_H_
