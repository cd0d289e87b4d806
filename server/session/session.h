// SPDX-License-Identifier: Apache-2.0
//
// One capture inside this process: arm, start, drain, stop, report.
#ifndef SERVER_SESSION_SESSION_H_
#define SERVER_SESSION_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "common/clock/clock_baseline.h"
#include "common/process/identity.h"
#include "common/xspace/segment/store.h"
#include "jobscope/v1/item.pb.h"
#include "jobscope/v1/profiler.pb.h"
#include "server/session/session_options.h"

namespace jobscope {

// What a session leaves behind. `store` holds all items, the summary last; it gives its memory back
// with its last owner.
struct SessionResult {
  absl::Status status;  // not OK: nothing was recorded (refused, cancelled before the start, every
                        // collector failed)
  std::shared_ptr<xspace::Store> store;
  v1::Summary summary;
  // The slot is free for the next session when the last owner lets go of this: whoever still
  // delivers keeps it.
  std::shared_ptr<void> slot;
};

// All collectors have armed, or have failed to.
struct SessionArmed {
  std::shared_ptr<xspace::Store> store;
  uint64_t store_bytes = 0;  // that it may take: as asked for, or as the process has room
  std::vector<v1::CollectorState> collectors;
  absl::Duration lookback;  // how far back all that have a past reach; at most what was asked for
};

struct SessionStarted {
  uint64_t start_monotonic_ns = 0;  // when recording really began; by steps: to watch for the first
  uint64_t late_ns = 0;             // after the commanded instant
};

// Run on the session's thread, must not block for long. All but `done` may be empty.
struct SessionCallbacks {
  // At most once, before any item is in the store.
  absl::AnyInvocable<void(const SessionArmed&)> armed;
  // At most once: recording has begun, or, with a StepRange, the wait for its first step. Not
  // called when the session ends before.
  absl::AnyInvocable<void(const SessionStarted&)> started;
  // Exactly once, after the last verb.
  absl::AnyInvocable<void(SessionResult)> done;
};

// Where a session is. `lost` is what is known before the end.
struct SessionProgress {
  std::string state;  // as in v1::Busy
  uint64_t events = 0;
  uint64_t lost = 0;
  uint64_t bytes = 0;  // of items, also of those released
};

// The client of a session is away: since when, and when the session ends without it. On MONOTONIC.
struct ClientLost {
  uint64_t since_ns = 0;
  uint64_t ends_ns = 0;
};

enum class WhenBusy {
  kWait,    // in line, first come first served, until the deadline
  kRefuse,  // ALREADY_EXISTS: who holds it, for how much longer; a session that only delivers is
            // waited for, so that a caller who has its answer can begin anew at once
};

// Names one accepted request, running or in line.
using SessionTicket = uint64_t;

// The sessions of this process: one at a time. Between sessions there is no thread and no timer of
// ours. All functions are thread-safe and return at once; none runs a verb of a collector or a
// callback in the caller's thread.
class SessionManager {
 public:
  // `collectors` must outlive the manager; in practice both live as long as the process.
  struct Dependencies {
    std::vector<Collector*> collectors;
    bool uses_tsc = true;
    std::shared_ptr<ClockBaseline> clock = nullptr;  // null: one of its own
    IdentitySource identity = [] { return v1::Identity(); };
  };
  explicit SessionManager(Dependencies dependencies);
  ~SessionManager();

  // Asks for a session. `deadline` is the caller's own: one that is still in line then ends with
  // DEADLINE_EXCEEDED.
  SessionTicket Submit(SessionOptions options, WhenBusy when_busy, absl::Time deadline,
                       SessionCallbacks callbacks);

  // Starts a session that was submitted `on_command` and has told `armed`. False: there is none of
  // that ticket, it has ended, or it has its command already.
  bool Command(SessionTicket ticket, StartCommand command);

  // Of the running session; nothing if it is not that ticket's.
  std::optional<SessionProgress> Progress(SessionTicket ticket) const;

  // Called on the session's thread before a session begins to arm: whoever still holds an older
  // session's store without needing the slot lets go of it. The newest one counts; an older one may
  // still be running when this has returned.
  void SetEvictor(absl::AnyInvocable<void()> evict);

  // The caller has gone: ends the session without delivering (status CANCELLED), or takes it out of
  // the line. Unknown tickets are ignored.
  void Cancel(SessionTicket ticket);

  // Ends the running session early and delivers what there is. Empty id: whichever runs. Returns
  // the id of the session that was stopped, or nothing. A request that still waits in line, or for
  // its start, ends at once.
  std::optional<std::string> Stop(std::string_view session_id,
                                  std::string_view ended_by = "request");

  // As Stop, for one session only, and only while it runs. False: it does not.
  bool StopTicket(SessionTicket ticket, std::string_view ended_by = "request");

  // Tells busy(), and the texts of refusals, that the client of the running session is away, or
  // (nullopt) that it is back. Ignored unless the session of that ticket runs.
  void SetClientLost(SessionTicket ticket, std::optional<ClientLost> lost);

  // The slot for whoever still delivers what an older session has left, as if that had just ended.
  // `done` gets it on the session's thread; or ALREADY_EXISTS, if somebody has it or waits for it.
  void HoldSlot(SessionOptions options, absl::AnyInvocable<void(SessionResult)> done);

  // The session that holds the slot, if any.
  std::optional<v1::Busy> busy() const;

  // Takes part from the next session on. False: there is one of that name.
  bool AddCollector(Collector* collector);

  // State of each collector now.
  std::vector<v1::CollectorState> DescribeCollectors() const;

  // Ends what runs (ended_by "shutdown"), refuses what comes, and waits until every callback has
  // run, at most `grace`. Returns false if some have not.
  bool Shutdown(absl::Duration grace);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace jobscope

#endif  // SERVER_SESSION_SESSION_H_
