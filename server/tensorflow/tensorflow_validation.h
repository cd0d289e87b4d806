// SPDX-License-Identifier: Apache-2.0
//
// Validates requests of tensorflow.ProfilerService (server/rpc/validation.h says how).
#ifndef SERVER_TENSORFLOW_TENSORFLOW_VALIDATION_H_
#define SERVER_TENSORFLOW_TENSORFLOW_VALIDATION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/rpc/validation.h"
#include "server/session/session_options.h"
#include "tensorflow/profiler_service.pb.h"

namespace jobscope {

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
  bool timestamp = false;
};

absl::StatusOr<MonitorCall> ValidateMonitor(const tensorflow::MonitorRequest& request,
                                            const CallContext& context);

// Returns `text` with every byte outside [A-Za-z0-9._-] replaced by an underscore, at most
// kMaxFileStemBytes long. Empty, "." and ".." become `fallback`.
std::string FileStem(absl::string_view text, absl::string_view fallback);

}  // namespace jobscope

#endif  // SERVER_TENSORFLOW_TENSORFLOW_VALIDATION_H_
