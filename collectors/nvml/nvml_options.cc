// SPDX-License-Identifier: Apache-2.0
#include "collectors/nvml/nvml_options.h"

#include "absl/strings/numbers.h"
#include "collectors/nvml/nvml_api.h"
#include "common/process/own_environment.h"

namespace jobscope {
namespace {

constexpr int kMinIntervalMs = 10;
constexpr int kMaxIntervalMs = 60'000;

}  // namespace

NvmlCollectorOptions NvmlCollectorOptions::FromEnvironment() {
  NvmlCollectorOptions options;
  int milliseconds = 0;
  if (absl::SimpleAtoi(OwnVariable("JOBSCOPE_NVML_MS").value_or(""), &milliseconds)) {
    options.off = milliseconds == 0;
    if (milliseconds >= kMinIntervalMs && milliseconds <= kMaxIntervalMs) {
      options.monitor.every = absl::Milliseconds(milliseconds);
    }
  }
  options.monitor.library = OwnVariable("JOBSCOPE_NVML_LIBRARY").value_or(nvml::kLibraryName);
  options.monitor.visible_devices = OwnVariable("CUDA_VISIBLE_DEVICES");
  return options;
}

}  // namespace jobscope
