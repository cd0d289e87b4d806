// SPDX-License-Identifier: Apache-2.0
//
// Names how a capture ended for one worker, how far it came, and which protocol it used.
#ifndef COMMON_RUN_OUTCOME_H_
#define COMMON_RUN_OUTCOME_H_

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

// jobscope.v1.Profiler, which streams; tensorflow.ProfilerService, also of stock workers.
enum class Protocol { kNative, kTensorflow };

// Names as in the table and in the manifest: "ok", "unreachable", ...; "connect", "describe", ...;
// "native", "tensorflow".
const char* Name(Outcome outcome);
const char* Name(Phase phase);
const char* Name(Protocol protocol);

// Returns whether it is ok, truncated or empty.
bool IsDelivery(Outcome outcome);

}  // namespace jobscope

#endif  // COMMON_RUN_OUTCOME_H_
