// SPDX-License-Identifier: Apache-2.0
#include "client/rpc/timer.h"

#include <utility>

#include "client/rpc/deadline.h"

namespace jobscope {

std::shared_ptr<Timer> Timer::Start(CallThreads* threads, absl::Duration delay,
                                    std::function<void()> fire) {
  // No make_shared: the constructor is private.
  const std::shared_ptr<Timer> timer(new Timer(std::move(fire)));
  timer->self_ = timer;
  timer->alarm_.Set(threads->queue(), DeadlineIn(delay),
                    static_cast<CallThreads::Call*>(timer.get()));
  return timer;
}

void Timer::OnDone(bool ok) {
  const std::shared_ptr<Timer> self = std::move(self_);
  const std::function<void()> fire = std::move(fire_);
  if (ok) fire();
}

}  // namespace jobscope
