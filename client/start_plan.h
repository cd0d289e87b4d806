// SPDX-License-Identifier: Apache-2.0
//
// When to start: one instant, one zero, and one window of steps, for all workers that are armed.
#ifndef CLIENT_START_PLAN_H_
#define CLIENT_START_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/clock_sync.h"
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

struct StepsWanted {
  uint64_t count = 0;
  std::optional<int64_t> first;  // absent: as soon as all can
};

// Its steps can be aligned with those of others.
bool HasSteps(const ArmedWorker& worker);

// How far ahead of now the start must lie, so that each worker has been told before it, and has
// armed if it arms only then. `slowest_arm`: the longest that a worker took from the first question
// to being armed; `sync_phase`: what it took to measure the clocks of all.
absl::Duration StartLead(const std::vector<ArmedWorker>& workers, absl::Duration slowest_arm,
                         absl::Duration sync_phase);

// The number of the first step that the worker will certainly not have begun by `at_ns` on our
// MONOTONIC. Of a worker that HasSteps.
int64_t FirstReachableStep(const ArmedWorker& worker, uint64_t at_ns);

// The window that all workers with steps can record from an instant on; absent if none has steps.
// The error says at which worker the wanted first step is over.
absl::StatusOr<std::optional<v1::StepWindow>> ChooseSteps(const StepsWanted& wanted,
                                                          const std::vector<ArmedWorker>& workers,
                                                          uint64_t at_ns);

// How long the fastest worker will take until it begins `step`; zero or less: it has begun it.
// Infinite while no rate is known, and where none has steps.
absl::Duration UntilStep(int64_t step, const std::vector<ArmedWorker>& workers, uint64_t now_ns);

// What lies before the start in all traces of the run: as much as was asked for, but no more than
// somebody has.
uint64_t GrantedLookback(uint64_t wanted_ns, const std::vector<ArmedWorker>& workers);

}  // namespace jobscope

#endif  // CLIENT_START_PLAN_H_
