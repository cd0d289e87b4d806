// SPDX-License-Identifier: Apache-2.0
//
// Validates requests of jobscope.v1.Profiler (server/rpc/validation.h says how).
#ifndef SERVER_NATIVE_NATIVE_VALIDATION_H_
#define SERVER_NATIVE_NATIVE_VALIDATION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "jobscope/v1/profiler.pb.h"
#include "server/limits.h"
#include "server/rpc/validation.h"
#include "server/session/session_options.h"

namespace jobscope {

absl::Status ValidateStop(const v1::StopRequest& request);

// Validates the options of a session `on_command`. `context` provides peer and store_bytes.
absl::StatusOr<SessionOptions> ValidateArm(const v1::Arm& request, const CallContext& context);

// Facts at the time when `start` arrives.
struct StartContext {
  uint64_t monotonic_ns = 0;  // now
  int64_t realtime_ns = 0;    // now
  absl::Duration wanted_lookback;
  absl::Duration granted_lookback;
  uint64_t max_duration_ms = limits::kMaxDurationMs;  // Ceilings::duration_ms
};
// A start of 0 means now, a zero of 0 the start minus the lookback, a zero_unix_ns of 0 this
// worker's REALTIME at the zero: for clients that do not synchronise clocks.
absl::StatusOr<StartCommand> ValidateStart(const v1::Start& request, const StartContext& context);

absl::Status ValidateResume(const v1::Resume& request);

}  // namespace jobscope

#endif  // SERVER_NATIVE_NATIVE_VALIDATION_H_
