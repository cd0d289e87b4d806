// SPDX-License-Identifier: Apache-2.0
//
// Activities on their way into the trace: held until what they need to know of others has come.
#ifndef COLLECTORS_CUDA_HELD_ACTIVITIES_H_
#define COLLECTORS_CUDA_HELD_ACTIVITIES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "collectors/cuda/records/correlations.h"
#include "collectors/cuda/records/event_writer.h"
#include "collectors/cuda/records/step_timeline.h"
#include "collectors/cuda/session_account.h"

namespace jobscope::cuda {

// Work that a GPU does, as opposed to calls and memory.
bool IsDeviceWork(ActivityType type);

// A call is written once what it caused is known, and all in the order of their begin. Belongs to
// the collector's thread.
class HeldActivities {
 public:
  // All outlive this.
  HeldActivities(const Window* window, const StepTimeline* steps, EventWriter* writer,
                 SessionAccount* account)
      : window_(*window), steps_(*steps), writer_(*writer), account_(*account) {}

  // Takes an activity whose times are known; counts it where it lies outside of the window.
  void Take(const TimedActivity& timed);
  // It is not in the trace. With its launch known, that one is known not to be missing.
  void Lose(const char* cause, const TimedActivity& timed);

  // Writes what ended until then.
  void EmitUntil(uint64_t until_ticks, uint64_t now_ticks);
  // Writes what is known whole: of drivers' calls, which may lie within a call of the runtime that
  // is told later, those that ended before `old_ticks`.
  void EmitSettled(uint64_t old_ticks, uint64_t now_ticks);
  // Ids whose last record is older are not needed any more, once there are many.
  void ForgetOlderThan(uint64_t oldest_ticks);

  // After all is written: closes the account with what became of the launches in the window.
  void Close(uint64_t dropped);
  // Into the trace.
  void WriteOrder();
  // Of all GPUs.
  EventWriter::Order order() const;

  // Launches in the window of which no work has come.
  uint64_t InFlight() const { return correlations_.InFlight(window_); }
  size_t bytes() const { return held_.size() * sizeof(TimedActivity); }
  // A call that makes, changes or launches CUDA graphs was seen.
  bool graphs_called() const { return graphs_called_; }

 private:
  void Note(const TimedActivity& timed);
  void Emit(const std::function<bool(const TimedActivity&)>& is_ready, uint64_t now_ticks);
  void EmitOne(const TimedActivity& timed);
  // XProf finds no steps at all beside a GPU plane of which no kernel belongs to one. A plane's
  // name is told before its first event, which is seconds after the work: what is held then
  // decides.
  void ChoosePlanes(uint64_t now_ticks);
  const StepSpan* StepOf(uint64_t ticks) const;

  const Window& window_;
  const StepTimeline& steps_;
  EventWriter& writer_;
  SessionAccount& account_;
  std::vector<TimedActivity> held_;
  Correlations correlations_;
  std::map<uint32_t, EventWriter::Order> order_;  // by device
  bool graphs_called_ = false;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_HELD_ACTIVITIES_H_
