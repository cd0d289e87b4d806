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
#include "common/run/session_state.h"
#include "common/xspace/segment/store.h"
#include "jobscope/v1/item.pb.h"
#include "jobscope/v1/profiler.pb.h"
#include "server/session/progress_meter.h"
#include "server/session/session_callbacks.h"
#include "server/session/session_clock.h"
#include "server/session/session_context.h"
#include "server/session/session_control.h"
#include "server/session/session_options.h"
#include "server/session/start_plan.h"
#include "server/tasks/collector_tasks.h"

namespace jobscope {

// Runs the phases arming -> (armed, until commanded) -> waiting -> recording -> draining ->
// delivering. Other threads use control(), Describe and Progress. Only Run and AwaitDelivered
// block.
class SessionRun {
 public:
  using Clock = SessionControl::Clock;

  struct Environment {
    std::vector<std::shared_ptr<CollectorSlot>> slots;
    bool uses_tsc = true;
    std::shared_ptr<ClockBaseline> clock;
    IdentitySource identity;
    std::function<Clock::time_point()> process_queue;         // see SessionControl
    absl::AnyInvocable<void(const SessionArmed&)> armed;      // may be empty
    absl::AnyInvocable<void(const SessionStarted&)> started;  // may be empty
  };

  SessionRun(SessionOptions options, Environment environment);

  // Runs the whole session. Called once. Does not throw: if memory runs out, the session fails.
  SessionResult Run();

  // Called instead of Run by a session that only delivers.
  void SkipToDelivery() { control_->SetPhase(SessionPhase::kDelivering); }
  // Called after Run: blocks until control() reports the delivery, and processes the
  // request queue meanwhile.
  void AwaitDelivered() { control_->AwaitDelivered(); }

  SessionControl& control() { return *control_; }
  const SessionOptions& options() const { return options_; }
  v1::Busy Describe() const;
  SessionProgress Progress() const { return meter_.Read(control_->phase()); }

 private:
  SessionResult RunStages();
  // Returns an error if the process has no room for a capture.
  absl::Status Arm();
  // Sizes the session to the room that the process has. Returns how many of `collectors` may take
  // part.
  absl::StatusOr<size_t> FindRoom(size_t collectors);
  // Warns if a clock jumped, also without being noticed while recording.
  void CheckClock();
  void TellArmed();
  // Waits for the start instant and starts the collectors. Returns false if the session ended
  // first.
  bool WaitAndStart();
  bool WaitForStepWindow();
  Clock::time_point PlannedEnd() const;
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
  // The ticks since which everything is recorded, if it already is; else now.
  uint64_t ReadyTicks() const;

  const SessionOptions options_;
  Environment environment_;
  const std::shared_ptr<SessionControl> control_;

  // ---- session thread only ----
  CollectorTasks tasks_;
  std::vector<std::string> warnings_;
  SessionClock clock_;
  std::shared_ptr<SessionContext> context_;  // replaced if there is less room
  std::shared_ptr<xspace::Store> store_;     // the context's, for consumers
  StartPlan plan_;
  uint64_t recording_ticks_ = 0;  // when all collectors were really on
  uint64_t end_ticks_ = 0;
  bool started_ = false;
  absl::Status refused_;  // nobody can watch for the steps that were asked for

  // ---- all threads ----
  ProgressMeter meter_;
};

}  // namespace jobscope

#endif  // SERVER_SESSION_SESSION_RUN_H_
