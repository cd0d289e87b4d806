// SPDX-License-Identifier: Apache-2.0
//
// Detects by their durations that several steps occur per iteration.
#ifndef COLLECTORS_HOST_STEP_PATTERN_H_
#define COLLECTORS_HOST_STEP_PATTERN_H_

#include <cstddef>
#include <optional>
#include <vector>

namespace jobscope::host {

// Describes steps of which every `period`-th is long and the others are short.
struct StepPattern {
  size_t period = 0;
  double long_s = 0;  // medians
  double short_s = 0;
};

// Finds a pattern in the durations of successive steps, in seconds: at least eight long steps, each
// at least four times as long as any other, at a regular distance of 2 to 64 steps. nullopt: there
// is none.
std::optional<StepPattern> FindStepPattern(const std::vector<double>& lengths);

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_STEP_PATTERN_H_
