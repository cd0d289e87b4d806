// SPDX-License-Identifier: Apache-2.0
#include "server/session/start_plan.h"

#include <algorithm>

#include "server/limits.h"

namespace jobscope {
namespace {

uint64_t After(uint64_t ticks, absl::Duration duration, const TickMap& map) {
  const uint64_t distance = TicksIn(duration, map);
  return distance > UINT64_MAX - ticks ? UINT64_MAX : ticks + distance;
}

}  // namespace

uint64_t StartPlan::lookback_ticks() const {
  const uint64_t instant = std::min(commanded_ticks.value_or(start_ticks), start_ticks);
  return instant - std::min(instant, begin_ticks);
}

uint64_t TicksIn(absl::Duration duration, const TickMap& map) {
  const double ticks = absl::ToDoubleSeconds(duration) * map.ticks_per_second();
  return ticks < 9e18 ? static_cast<uint64_t>(ticks) : UINT64_MAX;
}

StartPlan PlanStart(const SessionOptions& options, const TickMap& map, uint64_t now_ticks) {
  StartPlan plan;
  plan.duration = options.duration;
  plan.steps = options.steps;
  plan.start_ticks = plan.zero_ticks = now_ticks;
  if (options.start_unix_ns.has_value()) {
    const int64_t late_ns = map.ToUnixNs(now_ticks) - *options.start_unix_ns;
    if (late_ns <= absl::ToInt64Nanoseconds(limits::kMaxStartAge)) {
      plan.zero_ticks = map.FromUnixNs(*options.start_unix_ns);
    }
    plan.commanded_ticks = plan.zero_ticks;
    plan.late_ns = static_cast<uint64_t>(std::max<int64_t>(0, late_ns));
    plan.start_ticks = std::max(now_ticks, plan.zero_ticks);
  }
  plan.begin_ticks = plan.start_ticks;
  if (!plan.steps.has_value()) plan.deadline_ticks = After(plan.start_ticks, plan.duration, map);
  return plan;
}

StartPlan PlanStart(const StartCommand& command, const TickMap& map, uint64_t ready_ticks) {
  StartPlan plan;
  plan.duration = command.duration;
  plan.max_lookback = command.max_lookback;
  plan.steps = command.steps;
  plan.keep_zero = true;
  plan.commanded_ticks = map.FromMonotonicNs(command.start_monotonic_ns);
  plan.zero_ticks = std::min(map.FromMonotonicNs(command.zero_monotonic_ns), *plan.commanded_ticks);
  plan.start_ticks = std::max(*plan.commanded_ticks, ready_ticks);
  plan.begin_ticks = plan.start_ticks;
  plan.late_ns = map.ToMonotonicNs(plan.start_ticks) - map.ToMonotonicNs(*plan.commanded_ticks);
  plan.deadline_ticks = After(plan.start_ticks, plan.duration, map);
  return plan;
}

void AddLookback(absl::Duration lookback, uint64_t oldest_ticks, const TickMap& map,
                 StartPlan* plan) {
  if (lookback <= absl::ZeroDuration()) return;
  const uint64_t instant =
      std::min(plan->commanded_ticks.value_or(plan->zero_ticks), plan->start_ticks);
  uint64_t begin = instant - std::min(instant, TicksIn(lookback, map));
  begin = std::max(begin, oldest_ticks);
  const uint64_t max_lookback_ticks = TicksIn(plan->max_lookback, map);
  begin = std::max(begin, plan->start_ticks - std::min(plan->start_ticks, max_lookback_ticks));
  if (plan->keep_zero) begin = std::max(begin, plan->zero_ticks);
  if (begin >= instant) return;
  plan->begin_ticks = begin;
  if (!plan->keep_zero) plan->zero_ticks = begin;
}

void OpenStepWindow(uint64_t open_ticks, const TickMap& map, StartPlan* plan) {
  if (!plan->keep_zero) {
    plan->zero_ticks = open_ticks;
    plan->deadline_ticks = After(open_ticks, plan->duration, map);
  }
  plan->start_ticks = plan->begin_ticks = std::max(open_ticks, plan->zero_ticks);
}

}  // namespace jobscope
