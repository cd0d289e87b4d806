// SPDX-License-Identifier: Apache-2.0
//
// Defines the phases of a session and the causes of its end. Names are for messages and people:
// v1::Busy.state, v1::Summary.ended_by.
#ifndef SERVER_SESSION_SESSION_STATE_H_
#define SERVER_SESSION_SESSION_STATE_H_

namespace jobscope {

enum class SessionPhase { kArming, kArmed, kWaiting, kRecording, kDraining, kDelivering };

enum class EndedBy {
  kDuration,
  kSteps,          // the last step of the window
  kRequest,        // a request to end early
  kShutdown,       // of the process or of its profiler server
  kClientLost,     // and did not reconnect
  kClock,          // it jumped
  kMaxTraceBytes,  // the trace has reached its ceiling
  kCancelled,      // the caller disconnected: nothing is delivered
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
