// SPDX-License-Identifier: Apache-2.0
//
// Defines the options of a session, after validation. Both services and programmatic captures
// create them.
#ifndef SERVER_SESSION_SESSION_OPTIONS_H_
#define SERVER_SESSION_SESSION_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "collectors/collector.h"
#include "common/options/recording_options.h"

namespace jobscope {

struct SessionOptions {
  std::string session_id;   // key for Stop and Terminate; may be empty
  std::string peer;         // the requester, for refusal messages and the audit log
  absl::Duration duration;  // zero with a lookback: dump at once; Infinite: until stopped
  // Absent or in the past: start at once. If at most 5 s in the past, it is still the trace's zero.
  std::optional<int64_t> start_unix_ns;
  absl::Duration lookback;
  std::optional<StepRange> steps;  // ends at `duration` at the latest
  // Arms, calls `armed` and waits for SessionManager::Command, which brings start, duration and
  // steps. The values above, except `lookback`, are then ignored.
  bool on_command = false;
  // The command will name no steps: recording may begin before it arrives.
  bool record_ahead = false;
  RecordingOptions recording;
  uint64_t store_bytes = 256ull << 20;
  const char* store_setting = "JOBSCOPE_STORE_MB";  // what raises store_bytes, for warnings
  uint64_t max_trace_bytes = 0;  // of events in all; the recording ends there. 0: no ceiling
  std::vector<std::string>
      ignored;  // options that were sent but are unknown; the summary names them
};

// Starts a session that waits for a command. Times are on this process's MONOTONIC clock.
struct StartCommand {
  uint64_t start_monotonic_ns = 0;  // in the past: at once, and the summary says how late
  uint64_t zero_monotonic_ns = 0;   // of the trace; at most the start
  int64_t zero_unix_ns = 0;         // the same zero on the commander's REALTIME
  uint64_t clock_uncertainty_ns = 0;
  int64_t clock_offset_ns = 0;  // REALTIME here minus the commander's
  absl::Duration duration;      // zero with a lookback: dump at once
  // A lookback counts from the commanded instant, which may be long past; the trace reaches back no
  // further than this before the actual start.
  absl::Duration max_lookback = absl::InfiniteDuration();
  std::optional<StepRange> steps;  // `duration` then bounds waiting and recording together
};

}  // namespace jobscope

#endif  // SERVER_SESSION_SESSION_OPTIONS_H_
