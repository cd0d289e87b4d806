// SPDX-License-Identifier: Apache-2.0
//
// Reads the training steps out of one worker's trace.
#ifndef ANALYSIS_STEP_TIMES_H_
#define ANALYSIS_STEP_TIMES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace jobscope::analysis {

// One whole step: an event of the host plane that is marked as a root (`_r`) and has a number.
struct Step {
  int64_t number = 0;
  int64_t start_ps = 0;
  int64_t duration_ps = 0;
  int64_t input_wait_ps = 0;  // time in which the step's own thread waited for input
};

// All whole steps of a serialized XSpace, in the order of their start. Clipped steps carry no mark
// and are left out. Reads `xspace` in place; memory: the steps, and the input waits of one thread.
// Bytes that are not an XSpace are InvalidArgument. Never throws.
absl::StatusOr<std::vector<Step>> ReadSteps(std::string_view xspace);

struct StepSummary {
  uint64_t steps = 0;
  double median_ms = 0;  // all zero without steps
  double p90_ms = 0;
  double longest_ms = 0;
  double input_wait_share = 0;  // 0..1 of the time in steps
};

StepSummary Summarize(const std::vector<Step>& steps);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_STEP_TIMES_H_
