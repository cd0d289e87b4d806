// SPDX-License-Identifier: Apache-2.0
//
// Connects a session to other threads: what they request and report, and how the session's thread
// waits for that.
#ifndef SERVER_SESSION_SESSION_CONTROL_H_
#define SERVER_SESSION_SESSION_CONTROL_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "collectors/collector.h"
#include "common/run/session_state.h"
#include "common/sync/mutex.h"
#include "jobscope/v1/profiler.pb.h"
#include "server/session/session_options.h"

namespace jobscope {

// A collector that hangs may keep this after the session has ended: its reports have no effect.
class SessionControl : public SessionEvents {
 public:
  using Clock = CondVar::Clock;

  // `process_queue` is called on the session thread on each wake-up, and while collectors run their
  // verbs, without locks; it returns the time of the next call. May be empty.
  explicit SessionControl(std::function<Clock::time_point()> process_queue);

  // ---- any thread ----

  // Ends the session. The first cause counts.
  void Stop(EndedBy cause);
  // The same, without a delivery.
  void Cancel();
  // Runs process_queue on the session thread.
  void Wake();
  // Returns false if the session does not wait for a command: not yet, no longer, or never.
  bool Command(StartCommand command);
  void Delivered();
  void OnStepWindowOpened(uint64_t ticks) override;
  void OnStepWindowClosed(uint64_t ticks) override;
  void OnClockJumped(uint64_t last_good_ticks) override;

  SessionPhase phase() const;
  // Fills state and remaining_ms.
  void Describe(v1::Busy* busy) const;
  std::optional<EndedBy> ended_by() const;
  bool cancelled() const;
  // Since when the process or its server shuts down, also if something else has ended the session.
  std::optional<Clock::time_point> shutdown_since() const;
  bool clock_jumped() const;
  std::optional<StartCommand> command() const;

  // ---- the session thread: all but SetPhase, ProcessQueue and BecomeArmed block ----

  void SetPhase(SessionPhase phase, Clock::time_point planned_end = Clock::time_point::max());
  void ProcessQueue();
  // From now on Command works. Returns false if the session has ended.
  bool BecomeArmed();
  void Sleep(std::chrono::nanoseconds duration);
  // Returns whether the session ended before `deadline`.
  bool AwaitEnd(Clock::time_point deadline);
  // Returns nullopt if the session ended first.
  std::optional<StartCommand> AwaitCommand();
  // Returns the ticks at which the step window opened; nullopt if the session ended first, or at
  // the deadline.
  std::optional<uint64_t> AwaitStepWindow(Clock::time_point deadline);
  // Waits until the recording ends: at `deadline`, which is `deadline_ticks`, with the step window,
  // or with the session. Returns the ticks of the end; nullopt: now.
  std::optional<uint64_t> AwaitRecorded(Clock::time_point deadline, uint64_t deadline_ticks);
  void AwaitDelivered();

 private:
  bool EndRequested() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_by_.has_value(); }
  // Waits until `done` (called with mutex_ held) returns true, or until `deadline`. Returns whether
  // it did.
  bool Wait(Clock::time_point deadline, const std::function<bool()>& done);

  const std::function<Clock::time_point()> process_queue_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<StartCommand> command_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool delivered_ ABSL_GUARDED_BY(mutex_) = false;
  // In ticks.
  std::optional<uint64_t> window_opened_ ABSL_GUARDED_BY(mutex_);
  std::optional<uint64_t> window_closed_ ABSL_GUARDED_BY(mutex_);
  std::optional<uint64_t> clock_held_until_ ABSL_GUARDED_BY(mutex_);  // it has jumped since
  std::optional<EndedBy> ended_by_ ABSL_GUARDED_BY(mutex_);
  std::optional<Clock::time_point> shutdown_since_ ABSL_GUARDED_BY(mutex_);
  SessionPhase phase_ ABSL_GUARDED_BY(mutex_) = SessionPhase::kArming;
  Clock::time_point planned_end_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::max();
};

}  // namespace jobscope

#endif  // SERVER_SESSION_SESSION_CONTROL_H_
