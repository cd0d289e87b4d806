// SPDX-License-Identifier: Apache-2.0
//
// Where the steps of one thread begin in the trace: a wait for input between two steps belongs to
// the next one.
#ifndef COLLECTORS_HOST_STEP_BEGINS_H_
#define COLLECTORS_HOST_STEP_BEGINS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace jobscope::host {

// Analyses count as input what lies within a step. A loop that waits for its batch and then marks
// its step would have none, so the event of a step begins with the input waits before it:
//
//   wait      |-------|                       the last wait before the step, always; earlier ones
//   as step               |---------|            long as at least half of the time from there to
//   the in trace  |------------------|            step is waiting (a validation between two epochs
//   is
//                                             not), and never across another step of the thread.
//
// Told of the events of one thread in the order of their ends. Belongs to the thread that drains.
class StepBegins {
 public:
  // Waits between two steps, and open steps, beyond which the oldest are forgotten.
  static constexpr size_t kMaxWaits = 64;
  static constexpr size_t kMaxOpenSteps = 64;

  // A wait for input has ended.
  void OnWait(uint64_t begin, uint64_t end);
  // Another scope has ended. Waits in it count from its begin: so scopes stay nested.
  void OnScope(uint64_t begin) {
    if (!waits_.empty()) CoverWaits(begin);
  }
  void OnStepBegin(uint64_t begin);
  // A step has ended. Returns its begin in the trace.
  uint64_t OnStepEnd(uint64_t begin, uint64_t end);

  // The begin in the trace of an open step that was marked to begin at `begin`.
  uint64_t Of(uint64_t begin) const;
  // Events are missing: waits before them may be of a step that is not known.
  void Forget() { waits_.clear(); }

 private:
  struct Wait {
    uint64_t begin = 0;
    uint64_t waited = 0;  // ticks; less than from its begin to its end where a scope covers it
  };
  struct OpenStep {
    uint64_t marked = 0;
    uint64_t begin = 0;
  };
  void CoverWaits(uint64_t begin);

  std::vector<Wait> waits_;  // since the newest begin or end of a step, oldest first
  std::vector<OpenStep> open_;
  uint64_t last_step_end_ = 0;
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_STEP_BEGINS_H_
