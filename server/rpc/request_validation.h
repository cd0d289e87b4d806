// SPDX-License-Identifier: Apache-2.0
//
// From what a peer sent to what a session is asked to do, or INVALID_ARGUMENT that names field,
// value and range. The only place that judges requests; the bounds stand in server/limits.h. Pure
// functions: no clock, no environment, no log.
#ifndef SERVER_RPC_REQUEST_VALIDATION_H_
#define SERVER_RPC_REQUEST_VALIDATION_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "jobscope/v1/profiler.pb.h"
#include "server/session/session_options.h"
#include "tensorflow/profiler_service.pb.h"

namespace jobscope {

// What is known about a call besides its request.
struct CallContext {
  std::string peer;  // as told to others in busy texts and audit lines
  absl::Time now;
  absl::Time deadline = absl::InfiniteFuture();  // the caller's own
  uint64_t store_bytes = 0;                      // what one capture may take in this worker
  absl::string_view own_host;                    // names the trace if the request names nothing
};

// A valid Profile.
struct ProfileCall {
  SessionOptions options;
  bool emit_xspace = false;
  // XSpace.hostnames[0]: the stem of the file that a stock client writes, made of [A-Za-z0-9._-].
  std::string file_stem;
};

absl::StatusOr<ProfileCall> ValidateProfile(const tensorflow::ProfileRequest& request,
                                            const CallContext& context);

// A valid StartContinuousProfiling: what each snapshot of it will be asked with. Duration, start
// time and deadline mean nothing there; `options.lookback` is left to the snapshot.
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

// A session `on_command`. `context` brings peer and store_bytes.
absl::StatusOr<SessionOptions> ValidateArm(const v1::Arm& request, const CallContext& context);

// What is known when `start` comes.
struct StartContext {
  uint64_t monotonic_ns = 0;  // now
  int64_t realtime_ns = 0;    // now
  absl::Duration wanted_lookback;
  absl::Duration granted_lookback;
};
// A start of 0 is now, a zero of 0 is the start minus the lookback, a zero_unix_ns of 0 is what
// this worker's REALTIME makes of it: for clients that don't synchronise clocks.
absl::StatusOr<StartCommand> ValidateStart(const v1::Start& request, const StartContext& context);

absl::Status ValidateResume(const v1::Resume& request);

// `text` made of [A-Za-z0-9._-], every other byte an underscore, at most kMaxFileStemBytes. Empty,
// "." and ".." become `fallback`.
std::string FileStem(absl::string_view text, absl::string_view fallback);

}  // namespace jobscope

#endif  // SERVER_RPC_REQUEST_VALIDATION_H_
