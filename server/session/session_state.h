// SPDX-License-Identifier: Apache-2.0
//
// Where a session is, and what ended it. Texts are for messages and people: v1::Busy.state,
// v1::Summary.ended_by.
#ifndef SERVER_SESSION_SESSION_STATE_H_
#define SERVER_SESSION_SESSION_STATE_H_

namespace jobscope {

enum class SessionPhase { kArming, kArmed, kWaiting, kRecording, kDraining, kDelivering };

enum class EndedBy {
  kDuration,
  kSteps,          // the last of the step window
  kRequest,        // somebody asked for an early end
  kShutdown,       // of the process or of its profiler server
  kClientLost,     // and it has not come back
  kClock,          // it jumped
  kMaxTraceBytes,  // the trace has reached its ceiling
  kCancelled,      // the caller has gone: nothing is delivered
};

inline const char* Name(SessionPhase phase) {
  switch (phase) {
    case SessionPhase::kArming:
      return "arming";
    case SessionPhase::kArmed:
      return "armed";
    case SessionPhase::kWaiting:
      return "waiting";
    case SessionPhase::kRecording:
      return "recording";
    case SessionPhase::kDraining:
      return "draining";
    case SessionPhase::kDelivering:
      return "delivering";
  }
  return "";
}

inline const char* Name(EndedBy cause) {
  switch (cause) {
    case EndedBy::kDuration:
      return "duration";
    case EndedBy::kSteps:
      return "steps";
    case EndedBy::kRequest:
      return "request";
    case EndedBy::kShutdown:
      return "shutdown";
    case EndedBy::kClientLost:
      return "client_lost";
    case EndedBy::kClock:
      return "clock";
    case EndedBy::kMaxTraceBytes:
      return "max_trace_bytes";
    case EndedBy::kCancelled:
      return "cancelled";
  }
  return "";
}

}  // namespace jobscope

#endif  // SERVER_SESSION_SESSION_STATE_H_
