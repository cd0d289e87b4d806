// SPDX-License-Identifier: Apache-2.0
//
// Coordinates the common start: waits until enough workers are armed and the planned moment is
// near, measures clocks, and chooses one instant.
#ifndef CLIENT_FAN_OUT_START_COORDINATOR_H_
#define CLIENT_FAN_OUT_START_COORDINATOR_H_

#include <grpcpp/support/status.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/fan_out/answer_wait.h"
#include "client/fan_out/common_start.h"
#include "client/fan_out/fan_out_options.h"
#include "client/fan_out/mailbox.h"
#include "client/fan_out/roster.h"
#include "client/fan_out/run_clocks.h"
#include "client/fan_out/start_lead.h"
#include "client/terminal/progress.h"

namespace jobscope {

// Belongs to the deciding thread: never blocks, and receives all callbacks as letters. All
// absl::Time, except facts().started, are those of SteadyNow (common/clock/monotonic.h).
class StartCoordinator {
 public:
  // The fan-out, as the coordinator needs it.
  class Host {
   public:
    virtual ~Host() = default;
    // Returns a function that posts letters of the worker's running attempt; letters posted after
    // its end are not delivered. May be called on any thread, and outlive the host.
    virtual std::function<void(Mailbox::Letter)> Letters(size_t index) = 0;
    // Finishes the workers that have not begun to record.
    virtual void FinishUnstarted(const WorkerOutcome& outcome) = 0;
    // The time after which a measurement gives its place among max_parallel to another.
    virtual absl::Duration StallTime() const = 0;
    // Runs after the instant was sent to all armed workers.
    virtual void OnStartChosen() = 0;
  };

  // All arguments must outlive this.
  StartCoordinator(const FanOutOptions& options, Roster* roster, Progress* progress, Host* host)
      : options_(options),
        roster_(roster),
        progress_(progress),
        host_(host),
        start_(options, roster, &clocks_) {}

  // A worker was contacted for the first time.
  void OnAsked(absl::Time now);
  // The worker was moved to Stage::kArmed.
  void OnArmed(size_t index, absl::Time now);
  // Proceeds as far as possible by `now`: measures clocks, chooses the instant, starts workers.
  void Advance(absl::Time now);
  // Sends pings to workers whose clock is needed, as far as max_parallel allows.
  void MeasureClocks(absl::Time now);

  bool MayMeasureMore() const { return !to_sync_.empty(); }
  // When to call Advance again, if nothing happens before.
  absl::Time NextLook() const;
  // Returns whether armed workers wait for a delayed start, or for a distant step.
  bool IsHolding() const;

  const StartFacts& facts() const { return start_.facts(); }
  void MeasureSpread() { start_.MeasureSpread(); }

 private:
  enum class State {
    kGathering,  // workers become armed
    kHolding,    // enough are; the planned instant or step is not near
    kSyncing,    // their clocks are being measured
    kStarted,    // the instant is chosen: further workers are late
  };

  void Gather(absl::Time now);
  void Hold(absl::Time now);
  // Returns whether the requested first step is still distant, or no worker has begun a step, and
  // `until` has not passed. Sets hold_until_.
  bool AwaitsStep(absl::Time until, absl::Time now);
  void Measure(absl::Time now);
  void RequestSync(size_t index);
  void BeginSync(size_t index);
  void OnSynced(size_t index, absl::Time asked, const grpc::Status& status,
                std::optional<ClockEstimate> clock);
  absl::Time GatherDeadline() const { return arming_.Deadline(options_.times.gather); }
  absl::Time SyncDeadline() const { return syncing_.Deadline(options_.times.gather); }
  std::vector<ArmedWorker> ArmedWorkers() const;  // those that wait for the start

  const FanOutOptions& options_;
  Roster* const roster_;
  Progress* const progress_;
  Host* const host_;

  State state_ = State::kGathering;
  AnswerWait arming_;  // of first attempts: from the first question until the worker is armed
  std::optional<absl::Time> gathered_;  // when all awaited workers were armed
  bool delay_over_ = false;             // ...except for the time to measure the clocks
  bool told_hold_ = false;
  bool none_begun_ = false;          // no worker had begun a step at the last check
  bool armed_before_steps_ = false;  // ...or at an earlier one
  absl::Time hold_until_;            // when to check again
  std::deque<size_t> to_sync_;
  RunClocks clocks_;
  absl::Time sync_began_;
  AnswerWait syncing_;
  CommonStart start_;
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_START_COORDINATOR_H_
