// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/held_activities.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"

namespace jobscope::cuda {

void HeldActivities::Take(const TimedActivity& timed) {
  Note(timed);
  // Memory records before the window count in its totals, too.
  const bool before = timed.end_ticks < window_.start_ticks;
  const bool after = timed.start_ticks > window_.end_ticks;
  if ((before || after) && timed.activity.type != ActivityType::kMemory) {
    ++account_.outside;
    return;
  }
  held_.push_back(timed);
  if (!before && !after) ++taken_;
}

void HeldActivities::Note(const TimedActivity& timed) {
  const Activity& activity = timed.activity;
  if (activity.correlation == 0) return;
  if (IsDeviceWork(activity.type)) {
    (void)correlations_.NoteWork(timed);
  } else if (activity.type == ActivityType::kApi) {
    const ApiCall& call = calls_.Of(activity.is_driver, activity.call);
    graphs_called_ = graphs_called_ || call.of_graphs;
    correlations_.NoteCall(timed, call);
  }
}

void HeldActivities::Lose(LossCause cause, const TimedActivity& timed) {
  account_.Lose(cause);
  if (!IsDeviceWork(timed.activity.type)) return;
  // The id identifies its launch; without an id, it may belong to any launch.
  if (timed.activity.correlation == 0) {
    ++account_.lost_without_id;
    return;
  }
  Correlations::Known& known = correlations_.NoteWork(timed);
  if (cause == LossCause::kGpuNoTimestamp) ++known.without_times;
  if (cause == LossCause::kGpuUnfinished) ++known.unfinished;
}

const StepSpan* HeldActivities::StepOf(uint64_t ticks) const {
  const StepSpan* const step = steps_.Find(ticks);
  // A step that is clipped at the window's edge is not a step in the trace.
  if (step == nullptr || step->begin_ticks < window_.start_ticks) return nullptr;
  return step->end_ticks == 0 || step->end_ticks <= window_.end_ticks ? step : nullptr;
}

void HeldActivities::ChoosePlanes(uint64_t now_ticks) {
  if (writer_.has_device_planes()) return;
  if (steps_.Whole(window_.start_ticks, std::min(window_.end_ticks, now_ticks)) == 0) return;
  for (const TimedActivity& timed : held_) {
    if (!IsDeviceWork(timed.activity.type)) continue;
    const Correlations::Known* const known = correlations_.Find(timed.activity.correlation);
    const bool has_call = known != nullptr && known->has_call;
    if (StepOf(has_call ? known->call_ticks : timed.start_ticks) != nullptr) return;
  }
  writer_.UseCustomPlanes();
}

void HeldActivities::EmitUntil(uint64_t until_ticks, uint64_t now_ticks) {
  Emit([until_ticks](const TimedActivity& timed) { return timed.end_ticks <= until_ticks; },
       now_ticks);
}

void HeldActivities::EmitSettled(uint64_t old_ticks, uint64_t now_ticks) {
  Emit(
      [this, old_ticks, now_ticks](const TimedActivity& timed) {
        const Activity& activity = timed.activity;
        return timed.end_ticks <= (activity.is_driver ? old_ticks : now_ticks) &&
               activity.type != ActivityType::kMemory && correlations_.IsSettled(activity);
      },
      now_ticks);
}

void HeldActivities::Emit(const std::function<bool(const TimedActivity&)>& is_ready,
                          uint64_t now_ticks) {
  const auto ready_end = std::partition(held_.begin(), held_.end(), is_ready);
  if (ready_end == held_.begin()) return;
  // Work first: a call needs the plane of the work it launched.
  std::sort(held_.begin(), ready_end, [](const TimedActivity& a, const TimedActivity& b) {
    const bool a_is_work = IsDeviceWork(a.activity.type);
    if (a_is_work != IsDeviceWork(b.activity.type)) return a_is_work;
    return a.start_ticks != b.start_ticks ? a.start_ticks < b.start_ticks
                                          : a.end_ticks > b.end_ticks;
  });
  if (IsDeviceWork(held_.front().activity.type)) ChoosePlanes(now_ticks);
  auto next = held_.begin();
  // Also if memory runs out: a later call would write them a second time.
  const absl::Cleanup forget = [&] { held_.erase(held_.begin(), next); };
  while (next != ready_end) EmitOne(*next++);
}

void HeldActivities::EmitOne(const TimedActivity& timed) {
  const Activity& activity = timed.activity;
  const bool inside = window_.Intersects(timed.start_ticks, timed.end_ticks);
  if (!inside) ++account_.outside;
  if (activity.type == ActivityType::kMemory) {
    writer_.Memory(timed);  // also outside of the window: it changes the totals
    return;
  }
  if (!inside) return;
  const Correlations::Known* const known = correlations_.Find(activity.correlation);
  if (activity.type == ActivityType::kApi) {
    // A driver call inside of a runtime call has the same id: the outer one is the launch.
    const bool launch =
        known != nullptr && known->has_work && (!activity.is_driver || !known->has_runtime_call);
    writer_.Api(timed, launch ? &known->launched : nullptr,
                launch ? StepOf(timed.start_ticks) : nullptr);
    return;
  }
  if (!IsDeviceWork(activity.type)) {
    writer_.Other(timed);
    return;
  }
  several_devices_ = several_devices_ || device_.value_or(activity.device) != activity.device;
  device_ = activity.device;
  const bool has_call = known != nullptr && known->has_call;
  if (has_call) {
    LaunchOrder& order = order_[activity.device];
    ++order.launches;
    order.early += activity.start_ns < known->call_start_ns ? 1 : 0;
  }
  // Without its call (from before the window, or from a graph) a kernel is linked to a step
  // directly.
  writer_.Device(timed, has_call ? nullptr : StepOf(timed.start_ticks));
}

void HeldActivities::Close(uint64_t dropped, bool all_came) {
  const Correlations::AfterTheEnd after = correlations_.LookAfter(all_came);
  for (const auto& [device, launches] : after.began_after) order_[device].after = launches;
  account_.Close(after, dropped, InFlight() + correlations_.forgotten_launches());
}

void HeldActivities::WriteOrder() {
  for (const auto& [device, order] : order_) writer_.WriteOrder(device, order);
}

LaunchOrder HeldActivities::order() const {
  LaunchOrder all;
  for (const auto& [device, order] : order_) {
    all.launches += order.launches;
    all.early += order.early;
    all.after += order.after;
  }
  return all;
}

}  // namespace jobscope::cuda
