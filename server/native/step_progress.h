// SPDX-License-Identifier: Apache-2.0
//
// Describes the process's training steps for a capture's client.
#ifndef SERVER_NATIVE_STEP_PROGRESS_H_
#define SERVER_NATIVE_STEP_PROGRESS_H_

#include <cstdint>
#include <optional>

#include "jobscope/v1/profiler.pb.h"
#include "server/services/step_source.h"
#include "server/session/session_options.h"

namespace jobscope {

// Converts the newest steps to v1::StepState; nullopt without a step source.
std::optional<v1::StepState> StepStateOf(const StepHistory& history);

// Counts the steps that have begun since a recording began. Not thread-safe.
class WindowSteps {
 public:
  // Sets the steps to record; nullopt: the recording is by time.
  void SetRange(std::optional<StepRange> steps) { range_ = steps; }
  // The recording has begun, when `begun` steps had begun in the process.
  void OnStarted(uint64_t begun);
  // Returns 0 before OnStarted, and before the first step of the range.
  uint64_t Count(const StepHistory& history);

 private:
  std::optional<StepRange> range_;
  bool started_ = false;
  // Steps begun before the window; with a range, set once its first step has been seen.
  std::optional<uint64_t> before_;
};

}  // namespace jobscope

#endif  // SERVER_NATIVE_STEP_PROGRESS_H_
