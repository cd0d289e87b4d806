// SPDX-License-Identifier: Apache-2.0
//
// Validates requests: converts what a peer sent into session options, or returns INVALID_ARGUMENT
// that names field, value and range (server/limits.h), or PERMISSION_DENIED that names one of the
// operator's ceilings (server/rpc/ceilings.h). The only place that judges requests. Pure functions:
// no clock, no environment, no log.
#ifndef SERVER_RPC_REQUEST_VALIDATION_H_
#define SERVER_RPC_REQUEST_VALIDATION_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "jobscope/v1/profiler.pb.h"
#include "server/limits.h"
#include "server/rpc/ceilings.h"
#include "server/session/session_options.h"
#include "tensorflow/profiler_service.pb.h"

namespace jobscope {

// Facts about a call besides its request.
struct CallContext {
  std::string peer;  // for refusal messages and audit lines
  absl::Time now;
  absl::Time deadline = absl::InfiniteFuture();  // the caller's own
  uint64_t store_bytes = 0;                      // limit of one capture in this worker
  Ceilings ceilings;
  absl::string_view own_host;  // names the trace if the request names nothing
};

// A valid Profile request.
struct ProfileCall {
  SessionOptions options;
  bool emit_xspace = false;
  // XSpace.hostnames[0]: the stem of the file that a stock client writes; consists of
  // [A-Za-z0-9._-].
  std::string file_stem;
};

absl::StatusOr<ProfileCall> ValidateProfile(const tensorflow::ProfileRequest& request,
                                            const CallContext& context);

// A valid StartContinuousProfiling: the request of each of its snapshots. Ignores duration, start
// time and deadline; the snapshot sets `options.lookback`.
absl::StatusOr<ProfileCall> ValidateStartContinuous(const tensorflow::ProfileRequest& request,
                                                    const CallContext& context);

absl::Status ValidateSnapshot(const tensorflow::GetSnapshotRequest& request);

absl::Status ValidateTerminate(const tensorflow::TerminateRequest& request);

struct MonitorCall {
  absl::Duration duration;  // 0: answer at once
  bool verbose = false;
  bool timestamp = false;
};

absl::StatusOr<MonitorCall> ValidateMonitor(const tensorflow::MonitorRequest& request,
                                            const CallContext& context);

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

// Returns `text` with every byte outside [A-Za-z0-9._-] replaced by an underscore, at most
// kMaxFileStemBytes long. Empty, "." and ".." become `fallback`.
std::string FileStem(absl::string_view text, absl::string_view fallback);

}  // namespace jobscope

#endif  // SERVER_RPC_REQUEST_VALIDATION_H_
