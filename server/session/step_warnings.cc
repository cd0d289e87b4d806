// SPDX-License-Identifier: Apache-2.0
#include "server/session/step_warnings.h"

#include "absl/strings/str_format.h"

namespace jobscope {

std::string NoStepBegan(const StepRange& steps, bool stopped) {
  if (steps.by_ordinal) {
    return absl::StrFormat("the process had not begun its step %d, by count, when the capture %s",
                           steps.first,
                           stopped ? "was stopped" : "had waited for it; raise --max_duration_ms");
  }
  return absl::StrFormat(
      "no step with a number of %d or more began while the capture waited for it; check that the "
      "program marks its steps (JOBSCOPE_STEP), and their numbers",
      steps.first);
}

std::string FirstStepBeganEarly(uint64_t early_ns) {
  return absl::StrFormat(
      "its first step began %.1f ms before the common start of all workers, which the trace begins "
      "with: the beginning of that step is missing",
      static_cast<double>(early_ns) / 1e6);
}

std::string NoLookbackWithSteps() {
  return "a capture of steps has no lookback: its trace begins with the first step; capture for a "
         "duration to get the past";
}

}  // namespace jobscope
