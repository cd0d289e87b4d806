// SPDX-License-Identifier: Apache-2.0
//
// Declares what a session and its requester report to each other.
#ifndef SERVER_SESSION_SESSION_CALLBACKS_H_
#define SERVER_SESSION_SESSION_CALLBACKS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/run/session_state.h"
#include "common/xspace/segment/store.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope {

// Identifies one accepted request, running or queued.
using SessionTicket = uint64_t;

// The result of a session. `store` holds all items, the summary last; its memory is freed with its
// last owner.
struct SessionResult {
  // Not OK: nothing was recorded (refused, cancelled before the start, every collector failed).
  absl::Status status;
  std::shared_ptr<xspace::Store> store;
  v1::Summary summary;
  // The slot is free for the next session when the last owner releases this: code that still
  // delivers keeps it.
  std::shared_ptr<void> slot;
};

// All collectors have armed, or have failed to.
struct SessionArmed {
  std::shared_ptr<xspace::Store> store;
  uint64_t store_bytes = 0;  // limit of the store: as requested, or what the process has room for
  std::vector<v1::CollectorState> collectors;
  absl::Duration lookback;  // how far back all collectors with a past reach; at most as requested
};

struct SessionStarted {
  uint64_t start_monotonic_ns = 0;  // when recording really began; by steps: the wait for one
  uint64_t late_ns = 0;             // delay after the commanded instant
};

// Run on the session thread; must not block for long. All but `done` may be empty.
struct SessionCallbacks {
  // Runs at most once, before any item is in the store.
  absl::AnyInvocable<void(const SessionArmed&)> armed;
  // Runs at most once: recording has begun, or, with a StepRange, the wait for its first step. Not
  // called if the session ends before that.
  absl::AnyInvocable<void(const SessionStarted&)> started;
  // Runs exactly once, after the last verb.
  absl::AnyInvocable<void(SessionResult)> done;
};

// Progress of a session. `lost` is what is known before the end.
struct SessionProgress {
  SessionPhase phase = SessionPhase::kArming;
  uint64_t events = 0;
  uint64_t lost = 0;
  uint64_t bytes = 0;  // of items, also of those released
};

// The client of a session is disconnected: since when, and when the session ends without it. By
// MonotonicNow.
struct ClientLost {
  uint64_t since_ns = 0;
  uint64_t ends_ns = 0;
};

}  // namespace jobscope

#endif  // SERVER_SESSION_SESSION_CALLBACKS_H_
