// SPDX-License-Identifier: Apache-2.0
//
// Builds the answer of Monitor: step times, CPU and memory of this process over a short time.
#ifndef SERVER_TENSORFLOW_MONITOR_H_
#define SERVER_TENSORFLOW_MONITOR_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "jobscope/v1/profiler.pb.h"
#include "server/services/step_source.h"
#include "server/tensorflow/tensorflow_validation.h"
#include "tensorflow/profiler_service.pb.h"

namespace jobscope {

// CPU time and memory of this process. Reading them takes microseconds.
struct MonitorSample {
  absl::Time date;
  absl::Time at;       // of SteadyNow: the two of an interval
  absl::Duration cpu;  // user and system, all threads, since the process started
  std::optional<uint64_t> rss_bytes;
};
MonitorSample TakeMonitorSample();

// `before` and `after` bracket the requested time; `steps` is read at its end. With a duration of
// 0, CPU is unknown and absent from the text. `gpus` null: this worker does not ask for GPUs.
tensorflow::MonitorResponse MakeMonitorResponse(const MonitorCall& call,
                                                const MonitorSample& before,
                                                const MonitorSample& after,
                                                const StepHistory& steps, const v1::Gpus* gpus);

}  // namespace jobscope

#endif  // SERVER_TENSORFLOW_MONITOR_H_
