// SPDX-License-Identifier: Apache-2.0
//
// Runs one session from arm to summary, on the session thread.
#ifndef SERVER_SESSION_SESSION_RUN_H_
#define SERVER_SESSION_SESSION_RUN_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectors/collector.h"
#include "common/clock/clock_baseline.h"
#include "common/process/identity.h"
#include "common/sync/mutex.h"
#include "jobscope/v1/item.pb.h"
#include "jobscope/v1/profiler.pb.h"
#include "server/session/collector_tasks.h"
#include "server/session/session.h"
#include "server/session/session_clock.h"
#include "server/session/session_options.h"
#include "server/session/session_state.h"
#include "server/session/start_plan.h"

namespace jobscope {

// Runs the phases arming -> (armed, until commanded) -> waiting -> recording -> draining ->
// delivering. Stop and Cancel may be called in each phase, from any thread; the first call counts.
// Only Run and AwaitDelivery block.
class SessionRun {
 public:
  using Clock = std::chrono::steady_clock;

  struct Environment {
    std::vector<std::shared_ptr<CollectorSlot>> slots;
    bool uses_tsc = true;
    std::shared_ptr<ClockBaseline> clock;
    IdentitySource identity;
    // Called on the session thread on each wake-up, without locks. Returns the time of the next
    // call.
    std::function<Clock::time_point()> process_queue;
    absl::AnyInvocable<void(const SessionArmed&)> armed;      // may be empty
    absl::AnyInvocable<void(const SessionStarted&)> started;  // may be empty
  };

  SessionRun(SessionOptions options, Environment environment);

  // Runs the whole session. Called once. Does not throw: if memory runs out, the session fails.
  SessionResult Run();

  // Called instead of Run by a session that only delivers.
  void SkipToDelivery();
  // Called after Run: blocks until Delivered is called, and processes the request queue meanwhile.
  void AwaitDelivery();
  void Delivered();

  void Stop(EndedBy cause);
  void Cancel();
  void Wake();  // runs process_queue on the session thread
  // Returns false if the session does not wait for a command: not yet, no longer, or never.
  bool Command(StartCommand command);

  const SessionOptions& options() const { return options_; }
  v1::Busy Describe() const;
  SessionProgress Progress() const;

 private:
  class Context;

  SessionResult RunStages();
  // Returns an error if the process has no room for a capture.
  absl::Status Arm();
  // Sizes the session to the room that the process has. Returns how many of `collectors` may take
  // part.
  absl::StatusOr<size_t> FindRoom(size_t collectors);
  // Warns if a clock jumped without being noticed while recording.
  void CheckClock();
  void TellArmed();
  // Returns nullopt if the session ended first.
  std::optional<StartCommand> AwaitCommand();
  // Waits for the start instant and starts the collectors. Returns false if the session ended
  // first.
  bool WaitAndStart();
  bool WaitForStepWindow();
  // All collectors have started, or have failed to.
  void NoteStarted();
  void Record();
  void StopAndReport();
  SessionResult Finish();

  // Starts the collectors that watch for steps, or the others.
  void StartCollectors(bool watching_steps);
  // The earliest ticks back to which every collector with a past has events; UINT64_MAX: no
  // collector has a past.
  uint64_t OldestTicks() const;
  void SetPhase(SessionPhase phase, Clock::time_point planned_end);
  bool EndRequested() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until `ended` (called with mutex_ held) returns true, or until `deadline`. Returns
  // whether it ended.
  bool Wait(Clock::time_point deadline, const std::function<bool()>& ended);
  // The ticks since which everything is recorded, if it already is; else now.
  uint64_t ReadyTicks() const;
  std::shared_ptr<xspace::Store> store() const ABSL_LOCKS_EXCLUDED(mutex_);

  const SessionOptions options_;
  Environment environment_;

  // ---- session thread only ----
  CollectorTasks tasks_;
  std::vector<std::string> warnings_;
  SessionClock clock_;
  std::shared_ptr<Context> context_;  // set when arming
  StartPlan plan_;
  uint64_t recording_ticks_ = 0;  // when all collectors were really on
  uint64_t end_ticks_ = 0;
  bool started_ = false;

  // ---- all threads ----
  mutable Mutex mutex_;
  CondVar changed_;
  // The context's store, for consumers after the session's end: its memory is freed with the last
  // of them, even if a hanging collector keeps the context.
  std::shared_ptr<xspace::Store> store_ ABSL_GUARDED_BY(mutex_);
  // Those that take part, set when arming.
  std::vector<Collector*> collectors_ ABSL_GUARDED_BY(mutex_);
  std::optional<StartCommand> command_ ABSL_GUARDED_BY(mutex_);
  std::optional<uint64_t> lost_ ABSL_GUARDED_BY(mutex_);  // once it is known exactly
  bool delivered_ ABSL_GUARDED_BY(mutex_) = false;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool window_opened_ ABSL_GUARDED_BY(mutex_) = false;
  bool window_closed_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t window_open_ticks_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t window_close_ticks_ ABSL_GUARDED_BY(mutex_) = 0;
  // In ticks; the clock has jumped since.
  std::optional<uint64_t> clock_held_until_ ABSL_GUARDED_BY(mutex_);
  std::optional<EndedBy> ended_by_ ABSL_GUARDED_BY(mutex_);
  SessionPhase phase_ ABSL_GUARDED_BY(mutex_) = SessionPhase::kArming;
  Clock::time_point planned_end_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::max();
};

}  // namespace jobscope

#endif  // SERVER_SESSION_SESSION_RUN_H_
