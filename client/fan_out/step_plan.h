// SPDX-License-Identifier: Apache-2.0
//
// Chooses the steps that the workers of a run record: the same ones, as far as this can be known.
#ifndef CLIENT_FAN_OUT_STEP_PLAN_H_
#define CLIENT_FAN_OUT_STEP_PLAN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/fan_out/start_lead.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

struct StepsWanted {
  uint64_t count = 0;
  std::optional<int64_t> first;  // absent: as soon as all workers can
};

// Returns whether the worker marks steps, and records those that a request names.
bool HasSteps(const ArmedWorker& worker);
// Returns whether the worker's steps are named by ordinal (how many its process has begun), because
// their numbers do not rise. Requires HasSteps.
bool ByOrdinal(const ArmedWorker& worker);
// Returns the newest step that it has begun, as a number or an ordinal. Requires HasSteps.
int64_t NewestStep(const ArmedWorker& worker);

// One window for all workers. If any worker's numbers rise, the window counts in those, and a
// worker whose numbers do not rise records the steps that it runs at the same time. Otherwise it
// counts ordinals: workers whose ordinals were within one of each other at the reference instant
// (as in a job whose ranks step together) record the same ordinals, others the steps of the same
// time.
struct StepPlan {
  int64_t first = 0;
  int64_t last = 0;
  bool by_ordinal = false;     // `first` and `last` are ordinals
  uint64_t reference_ns = 0;   // on our MONOTONIC
  double reference_count = 0;  // the common count at that time, including the fraction of a step
  // The median ordinal at that time of the workers named by ordinal; absent if each counts by
  // itself (--start_step names an ordinal).
  std::optional<double> ordinal_count;
};

// Returns whether the plan can be expressed in the worker's count. False only for a worker that was
// armed after the plan was made. Requires HasSteps.
bool CanMatch(const StepPlan& plan, const ArmedWorker& worker);

// Returns the window to send to the worker. Requires CanMatch.
v1::StepWindow WindowOf(const StepPlan& plan, const ArmedWorker& worker);

// Returns the window of `count` steps from `first` on, in the worker's count. Requires HasSteps.
v1::StepWindow WindowFrom(int64_t first, uint64_t count, const ArmedWorker& worker);

// Returns the first step, in the worker's own count, that it will certainly not have begun by
// `at_ns` on our MONOTONIC. Requires HasSteps.
int64_t FirstReachableStep(const ArmedWorker& worker, uint64_t at_ns);

// Returns the window that all workers with steps can record from an instant on; nullopt if none has
// steps. The error names the worker at which the requested first step is over.
absl::StatusOr<std::optional<StepPlan>> ChooseSteps(const StepsWanted& wanted,
                                                    const std::vector<ArmedWorker>& workers,
                                                    uint64_t at_ns);

// Returns the first step of the common count that none of the workers that use it will certainly
// have begun by `at_ns`. Requires that one HasSteps.
int64_t FirstReachableByAll(const std::vector<ArmedWorker>& workers, uint64_t at_ns);
// Returns the newest step of the common count that any worker has begun. Requires that one
// HasSteps.
int64_t NewestOfAll(const std::vector<ArmedWorker>& workers);

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_STEP_PLAN_H_
