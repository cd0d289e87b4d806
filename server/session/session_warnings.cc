// SPDX-License-Identifier: Apache-2.0
#include "server/session/session_warnings.h"

#include "absl/strings/str_cat.h"
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

std::string ClockJumped() {
  return "the time stamp counter jumped while the capture recorded (the machine was suspended, or "
         "the process moved to another one): the trace ends before it, and later events are lost; "
         "capture again";
}

std::vector<std::string> StoreWarnings(const xspace::Store& store, const SessionOptions& options,
                                       bool ended_early) {
  std::vector<std::string> warnings;
  if (store.lacked_space()) {
    warnings.push_back(absl::StrCat("the capture's store of ", store.cap_bytes() >> 20,
                                    " MiB was full, and events are lost: give it more memory (",
                                    options.store_setting, "), or record less"));
  }
  if (store.spent()) {
    warnings.push_back(absl::StrCat(
        ended_early ? "the recording ended early: its events"
                    : "the last events of the recording are lost: its events",
        " reached this worker's ceiling of ", options.max_trace_bytes >> 20,
        " MiB; record less, or have the worker started with a higher JOBSCOPE_MAX_TRACE_MB "
        "(options.max_trace_bytes)"));
  }
  return warnings;
}

}  // namespace jobscope
