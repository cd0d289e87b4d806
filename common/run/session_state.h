// SPDX-License-Identifier: Apache-2.0
//
// Defines the phases of a session, the causes of its end and the states of its collectors. Their
// names are for messages, manifests and people: v1::Busy.state, v1::Summary.ended_by,
// v1::CollectorState.state.
#ifndef COMMON_RUN_SESSION_STATE_H_
#define COMMON_RUN_SESSION_STATE_H_

#include "common/run/reported.h"

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

enum class CollectorState {
  kOn,
  kOff,
  kDegraded,  // records, but not everything that was asked for
  kFailed,
  kWedged,  // hangs in a call; only the session says so
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

inline const char* Name(CollectorState state) {
  switch (state) {
    case CollectorState::kOn:
      return "on";
    case CollectorState::kOff:
      return "off";
    case CollectorState::kDegraded:
      return "degraded";
    case CollectorState::kFailed:
      return "failed";
    case CollectorState::kWedged:
      return "wedged";
  }
  return "";
}

// Returns whether a session has begun to record. Before that, its end is unknown.
inline bool HasBegun(const Reported<SessionPhase>& phase) {
  return phase != SessionPhase::kArming && phase != SessionPhase::kArmed;
}

// Returns whether a collector did not do what it was asked for. One that is off had nothing to
// record: a worker without a GPU, for instance.
inline bool IsFault(const Reported<CollectorState>& state) {
  return state != CollectorState::kOn && state != CollectorState::kOff;
}

}  // namespace jobscope

#endif  // COMMON_RUN_SESSION_STATE_H_
