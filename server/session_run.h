// SPDX-License-Identifier: Apache-2.0
//
// The life of one session, from arm to summary, on the session thread.
#ifndef SERVER_SESSION_RUN_H_
#define SERVER_SESSION_RUN_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/collector.h"
#include "common/clock.h"
#include "jobscope/v1/item.pb.h"
#include "jobscope/v1/profiler.pb.h"
#include "server/collector_task.h"
#include "server/session.h"
#include "server/session_options.h"

namespace jobscope {

// arming -> waiting -> recording -> draining -> done. Stop and Cancel may come in each state, from
// any thread; the first one counts. Run blocks its own thread only.
class SessionRun {
 public:
  using Clock = std::chrono::steady_clock;

  struct Environment {
    std::vector<std::shared_ptr<CollectorSlot>> slots;
    bool uses_tsc = true;
    ClockSample early;  // taken when the server started
    v1::Identity identity;
    // Called on the session thread whenever it wakes, without locks; says when it wants to be
    // called next.
    std::function<Clock::time_point()> tend_line;
    SessionStarted started;  // may be empty
  };

  SessionRun(SessionOptions options, Environment environment);

  // Runs the whole session. Called once.
  SessionResult Run();

  void Stop(std::string_view ended_by);
  void Cancel();
  void Wake();  // runs tend_line on the session thread

  const SessionOptions& options() const { return options_; }
  v1::Busy Describe() const;

 private:
  enum class Phase { kArming, kWaiting, kRecording, kDraining };
  class Context;

  void Arm();
  void FixClock();
  // Waits for the start instant and starts the collectors. False: ended before.
  bool WaitAndStart();
  bool WaitForStepWindow();
  void Record();
  void StopAndReport();
  SessionResult Finish();

  void TellStarted();
  void PostStart(bool watching_steps, uint64_t begin_ticks);
  void AwaitAll(Clock::duration limit);
  void SetPhase(Phase phase, Clock::time_point planned_end);
  bool EndRequested() const;  // with mutex_ held
  // Waits until `ended` (called with mutex_ held) or `deadline`. True: `ended`.
  bool Wait(Clock::time_point deadline, const std::function<bool()>& ended);
  uint64_t NowTicks() const;
  Clock::time_point TimeOf(uint64_t ticks) const;

  const SessionOptions options_;
  Environment environment_;
  std::shared_ptr<Context> context_;
  std::vector<std::shared_ptr<CollectorTask>> tasks_;
  std::vector<v1::CollectorState> absent_;  // wedged since an earlier session, or without a thread
  std::vector<std::string> warnings_;
  TickMap map_;
  uint64_t start_ticks_ = 0;     // recording begins; the duration counts from here
  uint64_t zero_ticks_ = 0;      // of the trace's times
  uint64_t lookback_ticks_ = 0;  // granted
  uint64_t end_ticks_ = 0;
  uint64_t late_ns_ = 0;
  bool started_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  bool cancelled_ = false;
  bool window_opened_ = false;
  bool window_closed_ = false;
  uint64_t window_open_ticks_ = 0;
  uint64_t window_close_ticks_ = 0;
  std::string ended_by_;
  Phase phase_ = Phase::kArming;
  Clock::time_point planned_end_ = Clock::time_point::max();
};

}  // namespace jobscope

#endif  // SERVER_SESSION_RUN_H_
