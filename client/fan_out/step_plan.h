// SPDX-License-Identifier: Apache-2.0
//
// Which steps the workers of a run record: the same ones, as far as that can be told.
#ifndef CLIENT_FAN_OUT_STEP_PLAN_H_
#define CLIENT_FAN_OUT_STEP_PLAN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/fan_out/start_plan.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

struct StepsWanted {
  uint64_t count = 0;
  std::optional<int64_t> first;  // absent: as soon as all can
};

// It marks steps, and can be told which ones to record.
bool HasSteps(const ArmedWorker& worker);
// Its steps are told by ordinal, how many its process has begun, because their numbers do not rise.
// Of a worker that HasSteps.
bool ByOrdinal(const ArmedWorker& worker);
// The newest step that it has begun, as a number or an ordinal. Of a worker that HasSteps.
int64_t NewestStep(const ArmedWorker& worker);

// One window for all. Where numbers rise it counts in those, and a worker whose numbers do not rise
// records the steps that it runs at the same time. Where no worker's numbers rise it counts
// ordinals; workers whose ordinals were within one of each other at the reference instant (as in a
// job whose ranks step together) record the same ordinals, others the steps of the same time.
struct StepPlan {
  int64_t first = 0;
  int64_t last = 0;
  bool by_ordinal = false;    // `first` and `last` are ordinals
  uint64_t reference_ns = 0;  // on our MONOTONIC
  double reference_count =
      0;  // there, of the common count, with the part of a step that had passed
  // The median ordinal there of those that are told by ordinal; absent if they count by themselves
  // (--start_step names an ordinal).
  std::optional<double> ordinal_count;
};

// What the worker is to be told. Of a worker that HasSteps.
v1::StepWindow WindowOf(const StepPlan& plan, const ArmedWorker& worker);

// The first step, in the worker's own count, that it will certainly not have begun by `at_ns` on
// our MONOTONIC. Of a worker that HasSteps.
int64_t FirstReachableStep(const ArmedWorker& worker, uint64_t at_ns);

// The window that all workers with steps can record from an instant on; absent if none has steps.
// The error says at which worker the wanted first step is over.
absl::StatusOr<std::optional<StepPlan>> ChooseSteps(const StepsWanted& wanted,
                                                    const std::vector<ArmedWorker>& workers,
                                                    uint64_t at_ns);

// How long the fastest worker will take until it begins `stage` of the common count; zero or less:
// it has begun it. Infinite while no rate is known, and where none has steps.
absl::Duration UntilStep(int64_t step, const std::vector<ArmedWorker>& workers, uint64_t now_ns);
// The newest step of the common count that any of them has begun. Of workers of which one HasSteps.
int64_t NewestOfAll(const std::vector<ArmedWorker>& workers);

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_STEP_PLAN_H_
