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
  // A step that never ended, such as that of a thread that exited in it, remains the current one.
  std::stable_sort(begins.begin(), begins.end(),
                   [](const StepBegin& a, const StepBegin& b) { return a.ago < b.ago; });
  return begins;
}

}  // namespace jobscope
