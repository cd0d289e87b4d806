// SPDX-License-Identifier: Apache-2.0
//
// A window of steps: follows the recorder's trigger, and opens and closes the session's window with it.
#ifndef COLLECTORS_HOST_STEP_WINDOW_H_
#define COLLECTORS_HOST_STEP_WINDOW_H_

#include <cstdint>

#include "collectors/collector.h"
#include "collectors/host/event_encoder.h"
#include "collectors/host/reader.h"
#include "collectors/host/session_threads.h"
#include "collectors/host/window.h"
#include "common/clock/tick_clock.h"

namespace jobscope::host {

// One thread's.
class StepWindow {
 public:
  // `bits`: of the session's mask, while the window is open. `keep_zero`: session time begins where
  // the window's map says, not with the first step.
  StepWindow(const Reader* reader, const StepRange& steps, uint32_t bits, bool keep_zero);

  // Watches for the steps from now on.
  void Arm() const;
  void Disarm() const { reader_->disarm_trigger(); }

  enum class State {
    kBefore,  // not open when the threads were listed: what they have recorded is not of the session
    kUnarmed,  // there is no trigger any more
    kOpen,
    kClosed,
  };
  // Looks at the trigger; lists the threads if it is not open yet. Tells `events` when it opens and
  // closes, and `window` where.
  State Follow(const TickClock& ticks, SessionThreads* threads, EventEncoder* encoder,
               Window* window, SessionEvents* events);
  State state() const { return state_; }
  bool open() const { return state_ == State::kOpen || state_ == State::kClosed; }

  // Whether the step that closed the window, by which its thread had not published it when it was
  // sampled, is `thread`'s.
  bool IsClosedBy(const ThreadDrain& thread) const;
  const StepRange& steps() const { return steps_; }

 private:
  // The begin, in the trace, of the step that opened the window: its thread is read from there on.
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
