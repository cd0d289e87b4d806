// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/events/step_timeline.h"

#include <algorithm>
#include <utility>

namespace jobscope::cuda {
namespace {

// Bounds the steps: 10,000 per second for longer than records are held.
constexpr size_t kMaxSteps = 65'536;

}  // namespace

StepTimeline::StepTimeline(RecentSteps source) : source_(std::move(source)) {}

void StepTimeline::Update() {
  if (!source_) return;
  for (const StepSpan& step : source_()) {
    const auto at = std::lower_bound(
        steps_.begin(), steps_.end(), step.begin_ticks,
        [](const StepSpan& a, uint64_t begin_ticks) { return a.begin_ticks < begin_ticks; });
    if (at != steps_.end() && at->begin_ticks == step.begin_ticks) {
      *at = step;
    } else {
      steps_.insert(at, step);
    }
  }
  while (steps_.size() > kMaxSteps) steps_.pop_front();
}

const StepSpan* StepTimeline::Find(uint64_t ticks) const {
  auto after = std::upper_bound(
      steps_.begin(), steps_.end(), ticks,
      [](uint64_t value, const StepSpan& step) { return value < step.begin_ticks; });
  if (after == steps_.begin()) return nullptr;
  const StepSpan& step = *--after;
  return step.end_ticks == 0 || ticks <= step.end_ticks ? &step : nullptr;
}

size_t StepTimeline::Whole(uint64_t from_ticks, uint64_t to_ticks) const {
  return static_cast<size_t>(std::count_if(steps_.begin(), steps_.end(), [&](const StepSpan& step) {
    return step.begin_ticks >= from_ticks && step.end_ticks != 0 && step.end_ticks <= to_ticks;
  }));
}

}  // namespace jobscope::cuda
