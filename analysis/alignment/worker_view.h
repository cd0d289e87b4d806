// SPDX-License-Identifier: Apache-2.0
//
// Unpacks and checks a digest for the reduce.
#ifndef ANALYSIS_ALIGNMENT_WORKER_VIEW_H_
#define ANALYSIS_ALIGNMENT_WORKER_VIEW_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analysis/steps/intervals.h"
#include "analysis/steps/step_class.h"
#include "jobscope/v1/digest.pb.h"

namespace jobscope::analysis {

// One step of one worker. Its account begins where the step before ended, and so includes the gap
// between the two.
struct StepView {
  int64_t number = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t account_ns = 0;  // up to end_ns
  int64_t gap_ns() const { return account_ns - (end_ns - begin_ns); }
};

struct CollectiveView {
  uint32_t name = 0;              // index into WorkerView::texts
  std::optional<uint32_t> group;  // index into WorkerView::texts
  std::optional<int64_t> sequence;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  std::optional<uint32_t> step;  // index into steps
  std::optional<uint64_t> bytes;
  uint32_t group_size = 0;  // 0: unknown
  Intervals blocked;
  int64_t blocked_ns = 0;
};

struct WorkerView {
  const v1::Digest* digest = nullptr;  // for fields that need no unpacking
  std::string name;
  std::vector<StepView> steps;
  // Empty: not recorded. The reduce fills kWaiting and kTransfer.
  std::array<std::vector<int64_t>, kStepClasses> class_ns;
  std::vector<int64_t> blocked_ns;  // empty: no collectives
  std::vector<int64_t> asleep_ns;   // without a recorded wait, per step of which it is known
  std::vector<std::string> texts;
  std::vector<CollectiveView> collectives;

  // Returns whether the trace shows how much time the worker spent in a class. A class without a
  // column took none, unless a collector that the worker may lack records it.
  bool Knows(StepClass step_class) const;
  bool has_collectives() const { return !collectives.empty(); }
  int64_t own_ns(size_t step) const {
    return steps[step].account_ns - (blocked_ns.empty() ? 0 : blocked_ns[step]);
  }
};

// Returns how far the worker's clock may be off, bounded.
int64_t ClockUncertaintyNs(const v1::Digest& digest);

// Unpacks a digest, which must outlive the view. INVALID_ARGUMENT: its columns are inconsistent, or
// its schema is unknown to this program.
absl::StatusOr<WorkerView> ViewOf(const v1::Digest& digest);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_ALIGNMENT_WORKER_VIEW_H_
