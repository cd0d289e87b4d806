// SPDX-License-Identifier: Apache-2.0
//
// Chooses the instant, and the steps, at which a run's workers begin to record. StartCoordinator
// decides when.
#ifndef CLIENT_FAN_OUT_COMMON_START_H_
#define CLIENT_FAN_OUT_COMMON_START_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/fan_out/fan_out_options.h"
#include "client/fan_out/roster.h"
#include "client/fan_out/run_clocks.h"
#include "client/fan_out/start_lead.h"
#include "client/fan_out/step_plan.h"
#include "client/worker/worker_client.h"

namespace jobscope {

// Facts about the common start of a run's workers.
struct StartFacts {
  std::optional<absl::Time> started;  // the chosen instant, on this machine's clock
  // Over the workers whose clock was measured: the time between the first and the last start, and
  // the largest uncertainty.
  std::optional<uint64_t> spread_ns;
  std::optional<uint64_t> clock_uncertainty_ns;
  std::optional<uint64_t> lookback_ns;
  std::optional<StepPlan> steps;
  size_t workers_by_ordinal = 0;  // how many workers count their steps by ordinal
};

// Facts about a worker that waits for the start.
ArmedWorker ArmedWorkerOf(const Slot& slot);

// Chooses the common start and sends it to each worker. Belongs to the deciding thread.
class CommonStart {
 public:
  // All arguments must outlive this.
  CommonStart(const FanOutOptions& options, Roster* roster, RunClocks* clocks)
      : options_(options), roster_(roster), clocks_(clocks) {}

  // Chooses one instant for all workers in Stage::kSynced, at least `delay` from now, and starts
  // them. `sync_phase`: how long the measurements of clocks took. `armed_before_steps`: workers
  // were armed before the job's first step; if the requested steps are over, records the first
  // ones that can be reached. Returns an error, and has started none, if the steps cannot be
  // reached. Call it once.
  absl::Status Choose(absl::Duration sync_phase, absl::Duration delay, bool armed_before_steps);

  // Starts a worker that was armed, and measured, after the instant was chosen.
  void StartLate(size_t index, absl::Time now);

  // What was chosen; empty before.
  const StartFacts& facts() const { return facts_; }
  // Sets the time between the first and the last start. Call it after the last worker's end.
  void MeasureSpread();

 private:
  absl::Duration ArmRoundTrip(const std::vector<size_t>& members) const;
  void Begin(size_t index, StartCall call);
  void AddSteps(size_t index, StartCall* call);

  const FanOutOptions& options_;
  Roster* const roster_;
  RunClocks* const clocks_;
  StartCall plan_;  // once chosen: common to all workers
  StartFacts facts_;
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_COMMON_START_H_
