// SPDX-License-Identifier: Apache-2.0
#include "server/native/step_progress.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/time/time.h"

namespace jobscope {

void WindowSteps::OnStarted(uint64_t begun) {
  started_ = true;
  if (!range_.has_value()) before_ = begun;
}

uint64_t WindowSteps::Count(const StepHistory& history) {
  if (!started_) return 0;
  if (!before_.has_value() && range_->by_ordinal) {
    if (history.count < static_cast<uint64_t>(range_->first)) return 0;
    before_ = static_cast<uint64_t>(range_->first) - 1;
  }
  if (!before_.has_value()) {
    // By steps: counts those of the newest 256 steps that have begun inside the window. Called
    // several times a second, so it sees the first one in time.
    const int64_t first = range_->first;
    auto inside = static_cast<uint64_t>(
        std::count_if(history.recent.begin(), history.recent.end(),
                      [first](const StepTiming& step) { return step.number >= first; }));
    if (history.current.has_value() && history.current->number >= first) ++inside;
    if (inside == 0) return 0;
    before_ = history.count - std::min(history.count, inside);
  }
  return history.count - std::min(history.count, *before_);
}

std::optional<v1::StepState> StepStateOf(const StepHistory& history) {
  if (history.count == 0) return std::nullopt;
  // How many of the newest steps count: enough to see more than pauses, few enough to follow a
  // change.
  constexpr size_t kNewest = 17;
  std::vector<StepBegin> newest = StepBegins(history);
  if (newest.size() > kNewest) newest.resize(kNewest);
  v1::StepState state;
  state.set_begun(history.count);
  state.set_by_ordinal(true);
  if (newest.empty()) return state;
  state.set_current(newest.front().number);
  state.set_age_ns(
      static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Nanoseconds(newest.front().ago))));
  // A program that restarts its numbers in each epoch shows rising numbers most of the time. One
  // fall at the beginning (warm-up steps, then those of the training) is accepted.
  state.set_increasing(history.last_fall == 0 || history.count / 3 > history.last_fall);
  for (size_t i = 1; i < newest.size(); ++i) {
    if (newest[i].number >= newest[i - 1].number) state.set_increasing(false);
  }
  if (newest.size() > 1) {
    // The median: the mean would include pauses (an evaluation, or time in which nothing observed
    // the steps), and a client would then expect too few steps until an instant.
    std::vector<absl::Duration> lengths;
    for (size_t i = 1; i < newest.size(); ++i) {
      lengths.push_back(newest[i].ago - newest[i - 1].ago);
    }
    const auto middle = lengths.begin() + static_cast<ptrdiff_t>((lengths.size() - 1) / 2);
    std::nth_element(lengths.begin(), middle, lengths.end());
    state.set_step_time_ms(absl::ToDoubleMilliseconds(*middle));
  }
  return state;
}

}  // namespace jobscope
