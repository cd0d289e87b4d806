// SPDX-License-Identifier: Apache-2.0
//
// Describes the session that holds the slot of this process.
#ifndef SERVER_SESSION_RUNNING_SESSION_H_
#define SERVER_SESSION_RUNNING_SESSION_H_

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "jobscope/v1/profiler.pb.h"
#include "server/session/session_callbacks.h"
#include "server/session/session_run.h"

namespace jobscope {

// A session and its stage, or none. Not thread-safe: guarded by the lock of its owner.
class RunningSession {
 public:
  RunningSession() = default;
  RunningSession(std::shared_ptr<SessionRun> run, SessionTicket ticket)
      : run_(std::move(run)), ticket_(ticket) {}

  bool none() const { return run_ == nullptr; }
  // Returns whether there is one that has not ended.
  bool active() const { return run_ != nullptr && !delivering_; }
  // Returns whether there is one that has ended: its callback runs, or the slot is held.
  bool delivering() const { return delivering_; }
  bool Is(SessionTicket ticket) const { return run_ != nullptr && ticket_ == ticket; }
  // Makes its thread, if there is one, process the request queue.
  void Wake() {
    if (run_ != nullptr) run_->control().Wake();
  }

  // ---- only if there is one ----

  const std::shared_ptr<SessionRun>& run() const { return run_; }
  void BeginDelivery() { delivering_ = true; }
  void SetClientLost(std::optional<ClientLost> lost) { client_lost_ = lost; }
  v1::Busy Describe() const;
  // Refuses a request that does not wait for it.
  absl::Status BusyError() const;

 private:
  std::shared_ptr<SessionRun> run_;
  SessionTicket ticket_ = 0;
  bool delivering_ = false;
  std::optional<ClientLost> client_lost_;
};

}  // namespace jobscope

#endif  // SERVER_SESSION_RUNNING_SESSION_H_
