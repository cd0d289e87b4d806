// SPDX-License-Identifier: Apache-2.0
//
// Which step an instant belongs to.
#ifndef COLLECTORS_CUDA_RECORDS_STEP_TIMELINE_H_
#define COLLECTORS_CUDA_RECORDS_STEP_TIMELINE_H_

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

// The newest steps of the process, oldest first; up to a few hundred. Given by the composition
// root, which knows the recorder. Called on the collector's thread.
using RecentSteps = std::function<std::vector<StepSpan>()>;

// The steps of one session, gathered from the source often enough that none is missed: the source
// keeps 256, and is asked ten times a second. Not thread-safe.
class StepTimeline {
 public:
  explicit StepTimeline(RecentSteps source);
  void Update();
  // The step that runs at `ticks`; null: none. Valid until Update.
  const StepSpan* Find(uint64_t ticks) const;
  // Steps that lie within [from, to], as far as they are known.
  size_t Whole(uint64_t from_ticks, uint64_t to_ticks) const;

 private:
  const RecentSteps source_;
  std::deque<StepSpan> steps_;  // by begin
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_RECORDS_STEP_TIMELINE_H_
