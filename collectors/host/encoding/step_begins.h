// SPDX-License-Identifier: Apache-2.0
//
// Computes where the steps of one thread begin in the trace: a wait for input between two steps
// belongs to the next one.
#ifndef COLLECTORS_HOST_ENCODING_STEP_BEGINS_H_
#define COLLECTORS_HOST_ENCODING_STEP_BEGINS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace jobscope::host {

// Moves the begin of a step to include the input waits before it. Analyses count as input only what
// lies within a step, and a loop that waits for its batch and then marks its step would have none:
//
//   wait for input      |-------|
//   step as marked                  |---------|
//   step in the trace   |---------------------|
//
// The last wait before the step always counts. Earlier ones count as long as at least half of the
// time from there to the step is waiting (in a validation between two epochs it is not), and never
// across another step of the thread.
//
// Receives the events of one thread in the order of their ends. Belongs to the thread that drains.
class StepBegins {
 public:
  // Bounds waits between two steps, and open steps; beyond it the oldest are forgotten.
  static constexpr size_t kMaxWaits = 64;
  static constexpr size_t kMaxOpenSteps = 64;

  // Notes an ended input wait.
  void OnWait(uint64_t begin, uint64_t end);
  // Notes another ended scope. Waits in it count from its begin: so scopes stay nested.
  void OnScope(uint64_t begin) {
    if (!waits_.empty()) CoverWaits(begin);
  }
  void OnStepBegin(uint64_t begin);
  // Notes an ended step. Returns its begin in the trace.
  uint64_t OnStepEnd(uint64_t begin, uint64_t end);

  // Returns the begin in the trace of an open step that was marked to begin at `begin`.
  uint64_t Of(uint64_t begin) const;
  // Forgets earlier waits: events are missing, and the waits may belong to an unknown step.
  void Forget() { waits_.clear(); }

 private:
  struct Wait {
    uint64_t begin = 0;
    uint64_t waited = 0;  // ticks; less than the wait's duration if a scope covers it
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

#endif  // COLLECTORS_HOST_ENCODING_STEP_BEGINS_H_
