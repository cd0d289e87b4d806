// SPDX-License-Identifier: Apache-2.0
//
// When to start: one instant and one zero for all workers that are armed. Which steps: step_plan.h.
#ifndef CLIENT_FAN_OUT_START_PLAN_H_
#define CLIENT_FAN_OUT_START_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/clock/clock_sync.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

// What is known of one armed worker.
struct ArmedWorker {
  std::string address;
  bool streams = false;  // speaks the native protocol
  std::optional<ClockEstimate> clock;
  uint64_t lookback_ns = 0;  // how far back it reaches
  std::optional<v1::StepState> steps;
  uint64_t steps_seen_ns = 0;  // when `steps` came, on our MONOTONIC
};

// How far ahead of now the start must lie, so that each worker has been told before it.
// `sync_phase`: what it took to measure the clocks of all.
absl::Duration StartLead(const std::vector<ArmedWorker>& workers, absl::Duration sync_phase);

// What lies before the start in all traces of the run: as much as was asked for, but no more than
// somebody has.
uint64_t GrantedLookback(uint64_t wanted_ns, const std::vector<ArmedWorker>& workers);

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_START_PLAN_H_
