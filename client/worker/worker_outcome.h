// SPDX-License-Identifier: Apache-2.0
//
// Defines the outcome of one worker: what happened, in which phase, and why.
#ifndef CLIENT_WORKER_WORKER_OUTCOME_H_
#define CLIENT_WORKER_WORKER_OUTCOME_H_

#include <grpcpp/support/status.h>

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/run/outcome.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

// One line of the table. The manifest has the same fields.
struct WorkerOutcome {
  Outcome kind = Outcome::kFailed;
  Phase phase = Phase::kConnect;
  std::string reason;            // one line, for people; may be empty for kOk
  std::optional<int> grpc_code;  // of the call that failed
};

// Returns whether another attempt may succeed, and nothing has been recorded yet: unreachable (but
// not a timeout: TCP itself has retried within the connect timeout) and busy.
bool IsWorthRetrying(Outcome outcome);

// Judges a failed Describe, Stop or Close. `connected`: the HTTP/2 connection was established when
// it failed.
WorkerOutcome JudgeDescribe(const grpc::Status& status, bool connected, absl::Duration timeout);

enum class Moment { kBeforeStart, kRecording, kAfterEnd };

// Judges a worker that ended without a trace at `moment` of the planned recording.
WorkerOutcome JudgeCapture(const grpc::Status& status, Moment moment);

// Returns "busy with session 'x' of peer, 20 ms left; try again later, or ..."
std::string HeldBy(const v1::Busy& busy);

// Returns a peer's status text as one printable line, without gRPC's wrapping; never empty.
std::string ReasonOf(const grpc::Status& status);

}  // namespace jobscope

#endif  // CLIENT_WORKER_WORKER_OUTCOME_H_
