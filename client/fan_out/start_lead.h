// SPDX-License-Identifier: Apache-2.0
//
// Computes how far ahead the common start must lie, and the lookback that all traces share.
// step_plan.h chooses the steps.
#ifndef CLIENT_FAN_OUT_START_LEAD_H_
#define CLIENT_FAN_OUT_START_LEAD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/clock/clock_sync.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

// Facts about one armed worker.
struct ArmedWorker {
  std::string address;
  bool streams = false;  // speaks the native protocol
  std::optional<ClockEstimate> clock;
  uint64_t lookback_ns = 0;  // how far back its rings reach
  std::optional<v1::StepState> steps;
  uint64_t steps_seen_ns = 0;  // when `steps` arrived, on our MONOTONIC
};

// Returns how far ahead of now the start must lie, so that each worker receives it in time.
// `sync_phase`: the duration of the clock measurements.
absl::Duration StartLead(const std::vector<ArmedWorker>& workers, absl::Duration sync_phase);

// Returns the lookback of all traces of the run: as much as requested, but no more than the longest
// that a worker has.
uint64_t GrantedLookback(uint64_t wanted_ns, const std::vector<ArmedWorker>& workers);

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_START_LEAD_H_
