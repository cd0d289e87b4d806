// SPDX-License-Identifier: Apache-2.0
//
// Sums up a run for its progress line.
#ifndef CLIENT_FAN_OUT_TALLY_H_
#define CLIENT_FAN_OUT_TALLY_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "client/fan_out/roster.h"
#include "client/fan_out/step_plan.h"
#include "client/terminal/progress.h"
#include "client/worker/worker_outcome.h"

namespace jobscope {

class Tally {
 public:
  // A worker reported `now`, after `before`.
  void OnProgress(const v1::Progress& before, const v1::Progress& now);
  void OnFinished(Outcome outcome);
  // A worker that finished as a duplicate is contacted after all.
  void OnContactedAgain() { --duplicates_; }

  // Returns the sums by `now`. `steps`: those chosen for all workers; if set, visits each worker.
  ProgressCounts Count(Roster* roster, const std::optional<StepsWanted>& steps,
                       absl::Time now) const;

 private:
  size_t delivered_ = 0;
  size_t duplicates_ = 0;
  uint64_t events_ = 0;  // of the newest Progress of each worker
  uint64_t lost_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_TALLY_H_
