// SPDX-License-Identifier: Apache-2.0
//
// What a capture tells its client of the process' training steps.
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
  // The recording is to be of these steps; otherwise it is of a time.
  void SetRange(std::optional<StepRange> steps) { range_ = steps; }
  // It has begun, when so many steps had begun in the process.
  void OnStarted(uint64_t begun);
  // 0 before OnStarted, and before the first step of the range.
  uint64_t Count(const StepHistory& history);

 private:
  std::optional<StepRange> range_;
  bool started_ = false;
  // Steps begun before the window; of a range, once its first one has been seen.
  std::optional<uint64_t> before_;
};

}  // namespace jobscope

#endif  // SERVER_NATIVE_STEP_PROGRESS_H_
