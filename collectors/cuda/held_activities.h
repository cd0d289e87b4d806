// SPDX-License-Identifier: Apache-2.0
//
// Holds activities until what they depend on is known, then writes them in order.
#ifndef COLLECTORS_CUDA_HELD_ACTIVITIES_H_
#define COLLECTORS_CUDA_HELD_ACTIVITIES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "collectors/cuda/events/event_writer.h"
#include "collectors/cuda/events/gpu_plane.h"
#include "collectors/cuda/events/step_timeline.h"
#include "collectors/cuda/records/api_calls.h"
#include "collectors/cuda/records/correlations.h"
#include "collectors/cuda/records/timed_activity.h"
#include "collectors/cuda/session_account.h"

namespace jobscope::cuda {

// Writes a call once the work that it caused is known, and all activities in the order of their
// begin. Used by the collector's thread only.
class HeldActivities {
 public:
  // All pointers must outlive this object.
  HeldActivities(const Window* window, const StepTimeline* steps, ApiCalls* calls,
                 EventWriter* writer, SessionAccount* account)
      : window_(*window), steps_(*steps), calls_(*calls), writer_(*writer), account_(*account) {}

  // Takes an activity whose times are known; counts it as outside if it does not touch the window.
  void Take(const TimedActivity& timed);
  // Counts an activity as lost. If its launch is known, that launch no longer counts as missing.
  void Lose(LossCause cause, const TimedActivity& timed);

  // Writes activities that ended until then.
  void EmitUntil(uint64_t until_ticks, uint64_t now_ticks);
  // Writes activities that nothing can change any more. Driver calls may lie within a runtime call
  // that is reported later: writes those that ended before `old_ticks`.
  void EmitSettled(uint64_t old_ticks, uint64_t now_ticks);
  // Bounds what is known of calls, see Correlations::ForgetOlderThan.
  void ForgetOlderThan(uint64_t oldest_ticks, uint64_t held_ticks) {
    correlations_.ForgetOlderThan(oldest_ticks, held_ticks);
  }

  // Closes the account with the launches in the window that have no work. Call it after the last
  // Emit. `all_came`: all work of the window had ended before tracing was switched off.
  void Close(uint64_t dropped, bool all_came);
  // Writes the order of launches and work into the trace.
  void WriteOrder();
  // Sum of all GPUs.
  LaunchOrder order() const;
  bool several_devices() const { return several_devices_; }  // had work in the window

  // Number of activities in the window so far.
  uint64_t taken() const { return taken_; }
  // Number of launches in the window whose work has not arrived.
  uint64_t InFlight() const { return correlations_.InFlight(); }
  size_t bytes() const { return held_.size() * sizeof(TimedActivity); }
  // Returns whether a call was seen that makes, changes or launches CUDA graphs.
  bool graphs_called() const { return graphs_called_; }

 private:
  void Note(const TimedActivity& timed);
  void Emit(const std::function<bool(const TimedActivity&)>& is_ready, uint64_t now_ticks);
  void EmitOne(const TimedActivity& timed);
  // Chooses custom planes if no held kernel belongs to a step: XProf finds no steps at all beside a
  // GPU plane of that kind. A plane's name must be written before its first event, seconds after
  // the work, so the held activities decide.
  void ChoosePlanes(uint64_t now_ticks);
  const StepSpan* StepOf(uint64_t ticks) const;

  const Window& window_;
  const StepTimeline& steps_;
  ApiCalls& calls_;
  EventWriter& writer_;
  SessionAccount& account_;
  std::vector<TimedActivity> held_;
  uint64_t taken_ = 0;
  Correlations correlations_{&window_};
  std::map<uint32_t, LaunchOrder> order_;  // by device
  std::optional<uint32_t> device_;         // the first one with work
  bool several_devices_ = false;
  bool graphs_called_ = false;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_HELD_ACTIVITIES_H_
