// SPDX-License-Identifier: Apache-2.0
#include "server/services/step_source.h"

#include <algorithm>

namespace jobscope {

std::vector<StepBegin> StepBegins(const StepHistory& history) {
  std::vector<StepBegin> begins;
  if (history.current.has_value()) {
    begins.push_back({history.current->number, history.current->length});
  }
  for (auto step = history.recent.rbegin(); step != history.recent.rend(); ++step) {
    begins.push_back({step->number, step->ended + step->length});
  }
  // Newest first, except that the current step may be older than completed ones: a step that never
  // ends, because its thread exited within it, remains the current one.
  std::stable_sort(begins.begin(), begins.end(),
                   [](const StepBegin& a, const StepBegin& b) { return a.ago < b.ago; });
  return begins;
}

}  // namespace jobscope
