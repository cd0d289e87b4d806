// SPDX-License-Identifier: Apache-2.0
//
// Finds the training step of an instant.
#ifndef COLLECTORS_CUDA_EVENTS_STEP_TIMELINE_H_
#define COLLECTORS_CUDA_EVENTS_STEP_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace jobscope::cuda {

struct StepSpan {
  int64_t number = 0;
  uint64_t begin_ticks = 0;
  uint64_t end_ticks = 0;  // 0: still running
};

// Returns the process's latest steps, oldest first; up to a few hundred. Set by the composition
// root, which knows the recorder. Called on the collector's thread.
using RecentSteps = std::function<std::vector<StepSpan>()>;

// Collects the steps of one session from the source, often enough to miss none: the source keeps
// 256 and is queried ten times per second. Not thread-safe.
class StepTimeline {
 public:
  explicit StepTimeline(RecentSteps source);
  void Update();
  // Returns the step running at `ticks`; null: none. Valid until Update.
  const StepSpan* Find(uint64_t ticks) const;
  // Returns how many known steps lie within [from, to].
  size_t Whole(uint64_t from_ticks, uint64_t to_ticks) const;

 private:
  const RecentSteps source_;
  std::deque<StepSpan> steps_;  // sorted by begin
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_EVENTS_STEP_TIMELINE_H_
