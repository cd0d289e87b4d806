// SPDX-License-Identifier: Apache-2.0
//
// Implements a window of steps: follows the recorder's trigger, and opens and closes the session's
// window with it.
#ifndef COLLECTORS_HOST_STEP_WINDOW_H_
#define COLLECTORS_HOST_STEP_WINDOW_H_

#include <cstdint>

#include "collectors/collector.h"
#include "collectors/host/encoding/event_encoder.h"
#include "collectors/host/encoding/reader.h"
#include "collectors/host/encoding/window.h"
#include "collectors/host/session_threads.h"
#include "common/clock/tick_clock.h"

namespace jobscope::host {

// Follows the step trigger of a session. Not thread-safe.
class StepWindow {
 public:
  // `bits`: the session's mask while the window is open. `keep_zero`: session time begins at the
  // zero of the window's map, not with the first step.
  StepWindow(const Reader* reader, const StepRange& steps, uint32_t bits, bool keep_zero);

  // Arms the trigger for the steps.
  void Arm() const;
  void Disarm() const { reader_->disarm_trigger(); }

  enum class State {
    kBefore,   // not open when the threads were listed: their records so far are outside of the
               // session
    kUnarmed,  // the trigger is no longer armed
    kOpen,
    kClosed,
  };
  // Checks the trigger; lists the threads if it is not open yet. Notifies `events` when it opens
  // and closes, and sets the window's begin and end.
  State Follow(const TickClock& ticks, SessionThreads* threads, EventEncoder* encoder,
               Window* window, SessionEvents* events);
  State state() const { return state_; }
  bool open() const { return state_ == State::kOpen || state_ == State::kClosed; }

  // Returns whether the step that closed the window is `thread`'s and was unpublished when the
  // thread was sampled.
  bool IsClosedBy(const ThreadDrain& thread) const;
  const StepRange& steps() const { return steps_; }

 private:
  // Returns the begin, in the trace, of the step that opened the window: its thread is read from
  // there.
  uint64_t BeginWithStep(uint64_t step_ticks, const TickClock& ticks, SessionThreads* threads,
                         EventEncoder* encoder) const;

  const Reader* const reader_;
  const StepRange steps_;
  const uint32_t bits_;
  const bool keep_zero_;
  State state_ = State::kBefore;
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_STEP_WINDOW_H_
