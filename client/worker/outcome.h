// SPDX-License-Identifier: Apache-2.0
//
// Names the outcome of one worker, and derives the program's exit code from all of them.
#ifndef CLIENT_WORKER_OUTCOME_H_
#define CLIENT_WORKER_OUTCOME_H_

#include <grpcpp/support/status.h>

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

enum class Outcome {
  kOk,           // the whole trace is on disk
  kTruncated,    // a trace is on disk; the recording ended before its planned end
  kEmpty,        // the worker recorded, and had nothing to record
  kDuplicate,    // the process of another address: recorded once, under that one
  kUnreachable,  // no connection
  kTimeout,      // no answer
  kBusy,         // another capture runs, or too many calls are open
  kRefused,      // rejected by the worker, or by a limit of ours
  kDied,         // the connection broke while the worker recorded or answered
  kFailed,       // everything else: see the reason
};

enum class Phase { kConnect, kDescribe, kArm, kRecord, kTransfer, kWrite, kDone };

// Names as in the table and in the manifest: "ok", "unreachable", ...; "connect", "describe", ...
const char* Name(Outcome outcome);
const char* Name(Phase phase);

struct Verdict {
  Outcome outcome = Outcome::kFailed;
  Phase phase = Phase::kConnect;
  std::string reason;            // one line, for people; may be empty for kOk
  std::optional<int> grpc_code;  // of the call that failed
};

// Whether it is ok, truncated or empty.
bool IsDelivery(Outcome outcome);

// Whether another attempt may succeed, and nothing has been recorded yet: unreachable (but not a
// timeout: TCP itself has retried within the connect timeout) and busy.
bool IsWorthRetrying(Outcome outcome);

// Judges a failed Describe. `connected`: the HTTP/2 connection was established when it failed.
Verdict JudgeDescribe(const grpc::Status& status, bool connected, absl::Duration timeout);

enum class Moment { kBeforeStart, kRecording, kAfterEnd };

// Judges a worker that ended without a trace at `moment` of the planned recording.
Verdict JudgeCapture(const grpc::Status& status, Moment moment);

// Returns "busy with session 'x' of peer, 20 ms left; try again later, or ..."
std::string HeldBy(const v1::Busy& busy);

// Returns a peer's status text as one printable line, without gRPC's wrapping; never empty.
std::string ReasonOf(const grpc::Status& status);

inline constexpr int kExitAll = 0;
inline constexpr int kExitOutput = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitSome = 3;
inline constexpr int kExitNone = 4;
inline constexpr int kExitInterrupted = 130;

// Returns the exit code: all, some or none of `total` > 0 workers, without duplicates, delivered.
int ExitCode(size_t delivered, size_t total);

}  // namespace jobscope

#endif  // CLIENT_WORKER_OUTCOME_H_
