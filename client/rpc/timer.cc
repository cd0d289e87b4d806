// SPDX-License-Identifier: Apache-2.0
#include "client/rpc/timer.h"

#include <utility>

#include "common/clock/monotonic.h"
#include "rpc/deadline.h"

namespace jobscope {

Timer::Timer(CallThreads* threads, absl::Duration delay, std::function<void()> fire)
    : threads_(threads), due_ns_(MonotonicNow() + DurationNs(delay)), fire_(std::move(fire)) {}

std::shared_ptr<Timer> Timer::Start(CallThreads* threads, absl::Duration delay,
                                    std::function<void()> fire) {
  // No make_shared: the constructor is private.
  const std::shared_ptr<Timer> timer(new Timer(threads, delay, std::move(fire)));
  timer->self_ = timer;
  timer->alarm_.Set(threads->queue(), DeadlineIn(delay),
                    static_cast<CallThreads::Call*>(timer.get()));
  return timer;
}

void Timer::OnDone(bool ok) {
  const std::shared_ptr<Timer> self = std::move(self_);
  const std::function<void()> fire = std::move(fire_);
  if (!ok) return;
  threads_->NoteTimer(due_ns_, MonotonicNow());
  fire();
}

}  // namespace jobscope
