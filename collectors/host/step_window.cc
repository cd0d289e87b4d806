// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/step_window.h"

#include <algorithm>
#include <optional>
#include <thread>

namespace jobscope::host {
namespace {

// Time limit for the record of the first step's begin, whose thread may be preempted just before
// writing it. Events recorded meanwhile stay in the rings: at 1 M events/s a third of one. Without
// that record the step lacks the wait before it.
constexpr absl::Duration kFirstStepWait = absl::Milliseconds(10);

}  // namespace

StepWindow::StepWindow(const Reader* reader, const StepRange& steps, uint32_t bits, bool keep_zero)
    : reader_(reader), steps_(steps), bits_(bits), keep_zero_(keep_zero) {}

void StepWindow::Arm() const {
  // Threads must see steps even if no server keeps their bit set, and must record the wait before
  // the first one and its usage.
  constexpr uint32_t kBeforeTheFirst = JOBSCOPE_BIT_INPUT_WAIT | JOBSCOPE_BIT_STEP_USAGE;
  reader_->set_mask(JOBSCOPE_HOLDER_SESSION, JOBSCOPE_BIT_STEP | (bits_ & kBeforeTheFirst));
  if (steps_.by_ordinal) {
    reader_->arm_trigger_by_ordinal(static_cast<uint64_t>(std::max<int64_t>(steps_.first, 0)),
                                    static_cast<uint64_t>(std::max<int64_t>(steps_.last, 0)),
                                    bits_);
  } else {
    reader_->arm_trigger(steps_.first, steps_.last, bits_);
  }
}

StepWindow::State StepWindow::Follow(const TickClock& ticks, SessionThreads* threads,
                                     EventEncoder* encoder, Window* window, SessionEvents* events) {
  jobscope_trigger_info trigger{};
  reader_->trigger(&trigger);
  if (!open()) {
    if (trigger.state == JOBSCOPE_TRIGGER_ARMED) {
      // Records so far are outside of the session if the window is still closed when checked
      // afterwards.
      threads->Refresh();
      reader_->trigger(&trigger);
      if (trigger.state == JOBSCOPE_TRIGGER_ARMED) return state_ = State::kBefore;
    }
    if (trigger.state != JOBSCOPE_TRIGGER_OPEN && trigger.state != JOBSCOPE_TRIGGER_CLOSED) {
      return state_ = State::kUnarmed;
    }
    state_ = State::kOpen;
    window->first_step_ticks = trigger.open_ticks;
    const uint64_t begin = bits_ == 0 ? trigger.open_ticks
                                      : BeginWithStep(trigger.open_ticks, ticks, threads, encoder);
    // A step that begins before a commanded zero is clipped: no time in a trace is negative.
    window->start_ticks = begin;
    if (keep_zero_) {
      window->start_ticks = std::max(begin, window->map.zero_ticks());
    } else {
      window->map = window->map.WithZero(begin);
    }
    events->OnStepWindowOpened(begin);
  }
  if (state_ != State::kClosed && trigger.state == JOBSCOPE_TRIGGER_CLOSED) {
    state_ = State::kClosed;
    window->end_ticks = trigger.close_ticks;
    window->over = true;
    events->OnStepWindowClosed(trigger.close_ticks);
  }
  return state_;
}

uint64_t StepWindow::BeginWithStep(uint64_t step_ticks, const TickClock& ticks,
                                   SessionThreads* threads, EventEncoder* encoder) const {
  const uint64_t deadline = ticks.Now() + ticks.Ticks(kFirstStepWait);
  while (true) {
    threads->Refresh();
    const std::optional<uint64_t> begin = threads->BeginWithStep(encoder, step_ticks);
    if (begin.has_value()) return *begin;
    // The step opens the window before its thread publishes the record of its begin.
    if (ticks.Now() >= deadline) return step_ticks;
    std::this_thread::yield();
  }
}

bool StepWindow::IsClosedBy(const ThreadDrain& thread) const {
  if (state_ != State::kClosed) return false;
  jobscope_trigger_info trigger{};
  reader_->trigger(&trigger);
  return thread.IsInStep(trigger.last_step, trigger.close_ticks);
}

}  // namespace jobscope::host
