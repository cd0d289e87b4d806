// SPDX-License-Identifier: Apache-2.0
#include "client/rpc/strand_timer.h"

#include <utility>

#include "common/clock/monotonic.h"

namespace jobscope {

StrandTimer::StrandTimer(CallThreads* threads, Strand* strand, std::weak_ptr<void> owner)
    : timers_(threads->timers()), strand_(strand), owner_(std::move(owner)) {}

void StrandTimer::Start(absl::Duration delay, std::function<void()> fire) {
  Stop();
  fires_ns_ = MonotonicNow() + DurationNs(delay);
  timer_ = timers_->Start(
      delay, [this, owner = owner_, generation = generation_, fire = std::move(fire)]() mutable {
        std::shared_ptr<void> held = owner.lock();
        if (held == nullptr) return;
        strand_->Post([this, held = std::move(held), generation, fire = std::move(fire)] {
          if (generation != generation_) return;
          timer_.reset();
          fire();
        });
      });
}

void StrandTimer::StartBy(uint64_t deadline_ns, std::function<void()> fire) {
  if (running() && fires_ns_ <= deadline_ns) return;
  const uint64_t now_ns = MonotonicNow();
  const uint64_t wait_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
  Start(absl::Nanoseconds(static_cast<int64_t>(wait_ns)) + absl::Milliseconds(1), std::move(fire));
  fires_ns_ = deadline_ns;
}

void StrandTimer::Stop() {
  ++generation_;
  if (timer_.has_value()) timers_->Cancel(*timer_);
  timer_.reset();
}

}  // namespace jobscope
