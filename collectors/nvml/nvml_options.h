// SPDX-License-Identifier: Apache-2.0
//
// Configures the collector of GPU utilisation.
#ifndef COLLECTORS_NVML_NVML_OPTIONS_H_
#define COLLECTORS_NVML_NVML_OPTIONS_H_

#include "absl/time/time.h"
#include "collectors/nvml/gpu_monitor.h"

namespace jobscope {

struct NvmlCollectorOptions {
  nvml::MonitorOptions monitor;
  bool off = false;                                    // JOBSCOPE_NVML_MS=0
  absl::Duration arm_waits = absl::Milliseconds(500);  // for the first answer of NVML

  // Reads JOBSCOPE_NVML_MS (milliseconds between samples, 10 to 60,000), JOBSCOPE_NVML_LIBRARY (the
  // library) and CUDA_VISIBLE_DEVICES. Invalid values leave the default. Reads them now, because
  // the application may change its environment later.
  static NvmlCollectorOptions FromEnvironment();
};

}  // namespace jobscope

#endif  // COLLECTORS_NVML_NVML_OPTIONS_H_
