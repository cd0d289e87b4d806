// SPDX-License-Identifier: Apache-2.0
//
// What a session is asked to do, after validation. Both services and programmatic mode make one of
// these.
#ifndef SERVER_SESSION_SESSION_OPTIONS_H_
#define SERVER_SESSION_SESSION_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "collectors/collector.h"
#include "common/options/device_tracer.h"
#include "common/options/framework_choice.h"

namespace jobscope {

struct SessionOptions {
  std::string session_id;   // key for Stop and Terminate; may be empty
  std::string peer;         // who asked: for busy texts, audit
  absl::Duration duration;  // zero with a lookback: dump at once; Infinite: until stopped
  // Absent, or in the past: at once. If it is at most 5 s in the past, it is still the trace's
  // zero.
  std::optional<int64_t> start_unix_ns;
  absl::Duration lookback;
  std::optional<StepRange> steps;  // ends at `duration` at the latest, if that comes first
  // Arms, tells `armed`, and waits for SessionManager::Command, which brings start, duration and
  // steps: those above are then of no meaning, but for `lookback`.
  bool on_command = false;
  // The command will name no steps: recording may begin before it comes.
  bool record_ahead = false;
  CollectorLevels levels;
  FrameworkChoice frameworks;
  bool record_shapes = false;  // of the inputs of a framework's operators
  DeviceTracer device_tracer = DeviceTracer::kAuto;
  uint64_t store_bytes = 256ull << 20;
  std::vector<std::string>
      ignored;  // options that were sent and are not known: named in the summary
};

// The start of a session that waits for it. Times are on this process's MONOTONIC clock.
struct StartCommand {
  uint64_t start_monotonic_ns = 0;  // in the past: at once, and the summary tells how late
  uint64_t zero_monotonic_ns = 0;   // of the trace; at most the start
  int64_t zero_unix_ns = 0;         // the same zero on the commander's REALTIME
  uint64_t clock_uncertainty_ns = 0;
  int64_t clock_offset_ns = 0;     // REALTIME here minus the commander's
  absl::Duration duration;         // zero with a lookback: dump at once
  std::optional<StepRange> steps;  // `duration` then bounds waiting and recording together
};

}  // namespace jobscope

#endif  // SERVER_SESSION_SESSION_OPTIONS_H_
