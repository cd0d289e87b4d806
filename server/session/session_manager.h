// SPDX-License-Identifier: Apache-2.0
//
// Runs captures inside this process, one at a time: arm, start, drain, stop, report.
#ifndef SERVER_SESSION_SESSION_MANAGER_H_
#define SERVER_SESSION_SESSION_MANAGER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "common/clock/clock_baseline.h"
#include "common/process/identity.h"
#include "common/run/session_state.h"
#include "jobscope/v1/item.pb.h"
#include "jobscope/v1/profiler.pb.h"
#include "server/session/session_callbacks.h"
#include "server/session/session_options.h"

namespace jobscope {

enum class WhenBusy {
  kWait,    // wait in the request queue, first come first served, until the deadline
  kRefuse,  // return ALREADY_EXISTS: who holds the slot, for how much longer. Waits for a
            // session that only delivers: a client may start its next capture at once
};

// Runs the sessions of this process, one at a time. Between sessions it has neither a thread nor a
// timer. All functions are thread-safe and, except Shutdown, return at once. None runs a verb of a
// collector on the caller's thread, nor, except Submit without memory or a thread, a callback.
class SessionManager {
 public:
  // `collectors` must outlive the manager; in practice both live as long as the process.
  struct Dependencies {
    std::vector<Collector*> collectors;
    bool uses_tsc = true;
    std::shared_ptr<ClockBaseline> clock = nullptr;  // null: creates its own
    IdentitySource identity = [] { return v1::Identity(); };
  };
  explicit SessionManager(Dependencies dependencies);
  ~SessionManager();

  // Requests a session. `deadline` is the caller's own, as an instant of SteadyNow: a request that
  // is still queued then ends with DEADLINE_EXCEEDED.
  // Throws nothing: without memory, or without a thread, `done` runs on the caller's thread before
  // this returns, with RESOURCE_EXHAUSTED.
  SessionTicket Submit(SessionOptions options, WhenBusy when_busy, absl::Time deadline,
                       SessionCallbacks callbacks);

  // Starts a session that was submitted with `on_command` and has called `armed`. Returns false if
  // no session has that ticket, it has ended, or it already has its command.
  bool Command(SessionTicket ticket, StartCommand command);

  // Progress of the running session; nullopt if `ticket` is not its ticket.
  std::optional<SessionProgress> Progress(SessionTicket ticket) const;

  // Sets a function that frees the store of an older session that does not need the slot. The
  // session thread calls it before a session begins to arm. The newest one counts; an older one may
  // still be running when this returns.
  void SetEvictor(absl::AnyInvocable<void()> evict);

  // The caller has disconnected: ends the session without delivering (status CANCELLED), or removes
  // it from the queue. Unknown tickets are ignored. Works without memory.
  void Cancel(SessionTicket ticket);

  // Ends the running session early and delivers what it has. An empty id matches any session.
  // Returns the id of the stopped session, or nullopt. A request that is still queued, or waits for
  // its start, ends at once.
  std::optional<std::string> Stop(std::string_view session_id, EndedBy cause = EndedBy::kRequest);

  // Like Stop, for one session and only while it runs. Returns false if it does not run.
  bool StopTicket(SessionTicket ticket, EndedBy cause = EndedBy::kRequest);

  // Makes busy() and the refusal messages say that the client of the running session is
  // disconnected, or (nullopt) connected again. Ignored unless the session of that ticket runs.
  void SetClientLost(SessionTicket ticket, std::optional<ClientLost> lost);

  // Takes the slot for code that still delivers an older session's result, as if that session had
  // just ended. `done` receives the slot on the session thread, or ALREADY_EXISTS if another
  // session holds it or waits for it.
  void HoldSlot(SessionOptions options, absl::AnyInvocable<void(SessionResult)> done);

  // The session that holds the slot, if any.
  std::optional<v1::Busy> busy() const;

  // Adds a collector, which takes part from the next session on. Returns false if one of that name
  // exists.
  bool AddCollector(Collector* collector);

  // The current state of each collector.
  std::vector<v1::CollectorState> DescribeCollectors() const;

  // Ends the running session (EndedBy::kShutdown), refuses new ones, and blocks until every
  // callback has run, for at most `grace`. Returns false if some have not.
  bool Shutdown(absl::Duration grace);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace jobscope

#endif  // SERVER_SESSION_SESSION_MANAGER_H_
