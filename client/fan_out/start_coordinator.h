// SPDX-License-Identifier: Apache-2.0
//
// The common start: enough are armed, the wanted moment is near, clocks are known, one instant.
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
#include "client/fan_out/fan_out.h"
#include "client/fan_out/mailbox.h"
#include "client/fan_out/roster.h"
#include "client/fan_out/run_clocks.h"
#include "client/fan_out/start_plan.h"
#include "client/terminal/progress.h"

namespace jobscope {

// Belongs to the deciding thread: nothing here blocks, and all callbacks come as letters. All
// absl::Time, but for facts().started, are those of SteadyNow (client/clock/monotonic.h).
class StartCoordinator {
 public:
  // The fan-out, as the start needs it.
  class Host {
   public:
    virtual ~Host() = default;
    // Of the worker's running attempt: a letter that is posted after its end is not delivered. May
    // be called from any thread, and outlive the host.
    virtual std::function<void(Mailbox::Letter)> Letters(size_t index) = 0;
    // A sentence for the worker's line in the manifest.
    virtual void Warn(size_t index, std::string text) = 0;
    // Whoever has not begun to record never will.
    virtual void FinishUnstarted(const Verdict& verdict) = 0;
    // After how long a measurement leaves its place among max_parallel to another.
    virtual absl::Duration StallTime() const = 0;
    // All that were armed are told the instant.
    virtual void OnStartChosen() = 0;
  };

  // All outlive this.
  StartCoordinator(const FanOutOptions& options, Roster* roster, Progress* progress, Host* host)
      : options_(options), roster_(roster), progress_(progress), host_(host) {}

  // A worker was asked for the first time.
  void OnAsked(absl::Time now);
  // The worker was moved to Stage::kArmed.
  void OnArmed(size_t index, absl::Time now);
  // Goes as far as it can by `now`: measures clocks, chooses the instant, starts workers.
  void Advance(absl::Time now);
  // Sends pings to those whose clock is wanted, as far as max_parallel allows.
  void MeasureClocks(absl::Time now);

  bool MayMeasureMore() const { return !to_sync_.empty(); }
  // When to Advance again, if nothing happens before.
  absl::Time NextLook() const;
  // Armed workers wait for a delayed start, or for a step that is far ahead.
  bool IsHolding() const;

  // What was chosen; empty before.
  const StartFacts& facts() const { return facts_; }
  // Fills in how far apart the starts lay. After the last worker's end.
  void MeasureSpread();

 private:
  enum class State {
    kGathering,  // workers become armed
    kHolding,    // enough are; the wanted instant or step is not near
    kSyncing,    // their clocks are being measured
    kStarted,    // the instant is chosen: whoever comes now is late
  };

  void Gather(absl::Time now);
  void Hold(absl::Time now);
  void Measure(absl::Time now);
  void RequestSync(size_t index);
  void BeginSync(size_t index);
  void OnSynced(size_t index, const grpc::Status& status, std::optional<ClockEstimate> clock);
  absl::Duration ArmRoundTrip(const std::vector<size_t>& members) const;
  void ChooseStart(absl::Time now);
  void StartLate(size_t index, absl::Time now);
  void Begin(size_t index, StartCall call);
  void AddSteps(size_t index, StartCall* call);
  absl::Time GatherDeadline() const;
  absl::Time SyncDeadline() const;
  std::vector<ArmedWorker> ArmedWorkers() const;  // those that wait for the start

  const FanOutOptions& options_;
  Roster* const roster_;
  Progress* const progress_;
  Host* const host_;

  State state_ = State::kGathering;
  absl::Time last_asked_;  // of those that were queued
  absl::Time last_ready_;
  absl::Duration slowest_ready_;
  std::optional<absl::Time> gathered_;  // when all that were waited for were armed
  bool delay_over_ = false;             // ...up to what measuring the clocks takes
  bool told_hold_ = false;
  absl::Time hold_until_;  // when to look again
  std::deque<size_t> to_sync_;
  RunClocks clocks_;
  absl::Time sync_began_;
  absl::Time last_pinged_;
  absl::Time last_synced_;
  absl::Duration slowest_sync_;
  StartCall plan_;  // from kStarted on: what all have in common
  StartFacts facts_;
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_START_COORDINATOR_H_
