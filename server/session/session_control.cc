// SPDX-License-Identifier: Apache-2.0
#include "server/session/session_control.h"

#include <algorithm>
#include <utility>

namespace jobscope {

SessionControl::SessionControl(std::function<Clock::time_point()> process_queue)
    : process_queue_(std::move(process_queue)) {}

void SessionControl::Stop(EndedBy cause) {
  const MutexLock lock(&mutex_);
  if (!ended_by_.has_value()) ended_by_ = cause;
  if (cause == EndedBy::kShutdown && !shutdown_since_.has_value()) shutdown_since_ = Clock::now();
  changed_.NotifyAll();
}

void SessionControl::Cancel() {
  const MutexLock lock(&mutex_);
  cancelled_ = true;
  if (!ended_by_.has_value()) ended_by_ = EndedBy::kCancelled;
  changed_.NotifyAll();
}

void SessionControl::Wake() {
  const MutexLock lock(&mutex_);
  woken_ = true;
  changed_.NotifyAll();
}

bool SessionControl::Command(StartCommand command) {
  const MutexLock lock(&mutex_);
  if (phase_ != SessionPhase::kArmed || command_.has_value() || EndRequested()) return false;
  command_ = std::move(command);
  changed_.NotifyAll();
  return true;
}

void SessionControl::Delivered() {
  const MutexLock lock(&mutex_);
  delivered_ = true;
  changed_.NotifyAll();
}

void SessionControl::OnStepWindowOpened(uint64_t ticks) {
  const MutexLock lock(&mutex_);
  window_opened_ = ticks;
  changed_.NotifyAll();
}

void SessionControl::OnStepWindowClosed(uint64_t ticks) {
  const MutexLock lock(&mutex_);
  window_closed_ = ticks;
  changed_.NotifyAll();
}

void SessionControl::OnClockJumped(uint64_t last_good_ticks) {
  const MutexLock lock(&mutex_);
  if (!clock_held_until_.has_value()) clock_held_until_ = last_good_ticks;
  if (!ended_by_.has_value()) ended_by_ = EndedBy::kClock;
  changed_.NotifyAll();
}

SessionPhase SessionControl::phase() const {
  const MutexLock lock(&mutex_);
  return phase_;
}

void SessionControl::Describe(v1::Busy* busy) const {
  const MutexLock lock(&mutex_);
  busy->set_state(Name(phase_));
  if (planned_end_ == Clock::time_point::max()) return;
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(planned_end_ - Clock::now());
  busy->set_remaining_ms(static_cast<uint64_t>(std::max<int64_t>(0, left.count())));
}

std::optional<EndedBy> SessionControl::ended_by() const {
  const MutexLock lock(&mutex_);
  return ended_by_;
}

bool SessionControl::cancelled() const {
  const MutexLock lock(&mutex_);
  return cancelled_;
}

std::optional<SessionControl::Clock::time_point> SessionControl::shutdown_since() const {
  const MutexLock lock(&mutex_);
  return shutdown_since_;
}

bool SessionControl::clock_jumped() const {
  const MutexLock lock(&mutex_);
  return clock_held_until_.has_value();
}

std::optional<StartCommand> SessionControl::command() const {
  const MutexLock lock(&mutex_);
  return command_;
}

void SessionControl::SetPhase(SessionPhase phase, Clock::time_point planned_end) {
  const MutexLock lock(&mutex_);
  phase_ = phase;
  planned_end_ = planned_end;
}

bool SessionControl::BecomeArmed() {
  const MutexLock lock(&mutex_);
  if (EndRequested()) return false;
  phase_ = SessionPhase::kArmed;
  return true;
}

void SessionControl::Sleep(std::chrono::nanoseconds duration) {
  Wait(Clock::now() + duration, [] { return false; });
}

bool SessionControl::AwaitEnd(Clock::time_point deadline) {
  return Wait(deadline, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return EndRequested(); });
}

std::optional<StartCommand> SessionControl::AwaitCommand() {
  Wait(Clock::time_point::max(), [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return command_.has_value() || EndRequested();
  });
  const MutexLock lock(&mutex_);
  return EndRequested() ? std::nullopt : command_;
}

std::optional<uint64_t> SessionControl::AwaitStepWindow(Clock::time_point deadline) {
  Wait(deadline, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return window_opened_.has_value() || EndRequested();
  });
  const MutexLock lock(&mutex_);
  if (!window_opened_.has_value() && !EndRequested()) ended_by_ = EndedBy::kDuration;
  return window_opened_;
}

std::optional<uint64_t> SessionControl::AwaitRecorded(Clock::time_point deadline,
                                                      uint64_t deadline_ticks) {
  Wait(deadline, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return window_closed_.has_value() || EndRequested();
  });
  const MutexLock lock(&mutex_);
  if (clock_held_until_.has_value()) return clock_held_until_;
  if (EndRequested()) return std::nullopt;
  ended_by_ = window_closed_.has_value() ? EndedBy::kSteps : EndedBy::kDuration;
  return window_closed_.value_or(deadline_ticks);
}

void SessionControl::AwaitDelivered() {
  Wait(Clock::time_point::max(),
       [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return delivered_; });
}

void SessionControl::ProcessQueue() {
  if (process_queue_) process_queue_();
}

bool SessionControl::Wait(Clock::time_point deadline, const std::function<bool()>& done) {
  while (true) {
    const auto next = process_queue_ ? process_queue_() : Clock::time_point::max();
    const MutexLock lock(&mutex_);
    changed_.WaitUntil(&mutex_, std::min(deadline, next),
                       [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return woken_ || done(); });
    woken_ = false;
    if (done()) return true;
    if (Clock::now() >= deadline) return false;
  }
}

}  // namespace jobscope
