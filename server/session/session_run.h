// SPDX-License-Identifier: Apache-2.0
//
// The life of one session, from arm to summary, on the session thread.
#ifndef SERVER_SESSION_SESSION_RUN_H_
#define SERVER_SESSION_SESSION_RUN_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
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
#include "jobscope/v1/item.pb.h"
#include "jobscope/v1/profiler.pb.h"
#include "server/session/collector_tasks.h"
#include "server/session/session.h"
#include "server/session/session_clock.h"
#include "server/session/session_options.h"
#include "server/session/start_plan.h"

namespace jobscope {

// arming -> (armed, until it is commanded) -> waiting -> recording -> draining -> delivering. Stop
// and Cancel may come in each state, from any thread; the first one counts. Run and AwaitDelivery
// block their own thread only.
class SessionRun {
 public:
  using Clock = std::chrono::steady_clock;

  struct Environment {
    std::vector<std::shared_ptr<CollectorSlot>> slots;
    bool uses_tsc = true;
    std::shared_ptr<ClockBaseline> clock;
    IdentitySource identity;
    // Called on the session thread whenever it wakes, without locks; says when it wants to be
    // called next.
    std::function<Clock::time_point()> process_queue;
    absl::AnyInvocable<void(const SessionArmed&)> armed;      // may be empty
    absl::AnyInvocable<void(const SessionStarted&)> started;  // may be empty
  };

  SessionRun(SessionOptions options, Environment environment);

  // Runs the whole session. Called once. Where memory ends in it, the session fails; it does not
  // throw.
  SessionResult Run();

  // Instead of Run: it is as if it had run, and only delivered.
  void SkipToDelivery();
  // After Run: returns when Delivered has been called, and processes the request queue meanwhile.
  void AwaitDelivery();
  void Delivered();

  void Stop(std::string_view ended_by);
  void Cancel();
  void Wake();  // runs process_queue on the session thread
  // False: it waits for no command, or not yet, or no more.
  bool Command(StartCommand command);

  const SessionOptions& options() const { return options_; }
  v1::Busy Describe() const;
  SessionProgress Progress() const;

 private:
  enum class Phase { kArming, kArmed, kWaiting, kRecording, kDraining, kDelivering };
  class Context;

  SessionResult RunStages();
  // Error: the process has no room for a capture.
  absl::Status Arm();
  // Gives the session the room that the process has. Returns how many of `collectors` may take
  // part.
  absl::StatusOr<size_t> FindRoom(size_t collectors);
  // Warns where a clock that jumped was not noticed while recording.
  void CheckClock();
  void TellArmed();
  // Nothing: ended before.
  std::optional<StartCommand> AwaitCommand();
  // Waits for the start instant and starts the collectors. False: ended before.
  bool WaitAndStart();
  bool WaitForStepWindow();
  // All collectors have started, or have failed to.
  void NoteStarted();
  void Record();
  void StopAndReport();
  SessionResult Finish();

  // Those that watch for steps, or the others.
  void StartCollectors(bool watching_steps);
  // The earliest ticks that every collector with a past reaches; UINT64_MAX: none has one.
  uint64_t OldestTicks() const;
  void SetPhase(Phase phase, Clock::time_point planned_end);
  bool EndRequested() const;  // with mutex_ held
  // Waits until `ended` (called with mutex_ held) or `deadline`. True: `ended`.
  bool Wait(Clock::time_point deadline, const std::function<bool()>& ended);
  // Since when everything is recorded, if it is already; else now.
  uint64_t ReadyTicks() const;

  const SessionOptions options_;
  Environment environment_;

  // ---- of the session thread ----
  CollectorTasks tasks_;
  std::vector<std::string> warnings_;
  SessionClock clock_;
  StartPlan plan_;
  uint64_t recording_ticks_ = 0;  // when all collectors really were on
  uint64_t end_ticks_ = 0;
  bool started_ = false;

  // ---- of all threads, under the lock ----
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Context> context_;  // from the arming on, the same; written by the session thread
  // Of the context, for those that wait for the session's end: its memory goes with the last of
  // them, though a collector that hangs keeps the context.
  std::shared_ptr<xspace::Store> store_;
  std::vector<Collector*> collectors_;  // those that take part, from the arming on
  std::optional<StartCommand> command_;
  std::optional<uint64_t> lost_;  // once it is known exactly
  bool delivered_ = false;
  bool woken_ = false;
  bool cancelled_ = false;
  bool window_opened_ = false;
  bool window_closed_ = false;
  uint64_t window_open_ticks_ = 0;
  uint64_t window_close_ticks_ = 0;
  std::optional<uint64_t> clock_held_until_;  // in ticks; it has jumped since
  std::string ended_by_;
  Phase phase_ = Phase::kArming;
  Clock::time_point planned_end_ = Clock::time_point::max();
};

}  // namespace jobscope

#endif  // SERVER_SESSION_SESSION_RUN_H_
