// SPDX-License-Identifier: Apache-2.0
//
// Implements a timer of an object that works on a strand.
#ifndef CLIENT_RPC_STRAND_TIMER_H_
#define CLIENT_RPC_STRAND_TIMER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "client/rpc/call_threads.h"
#include "client/rpc/strand.h"
#include "client/rpc/timers.h"

namespace jobscope {

// Runs a function on the strand after a delay. Not thread-safe: used on the strand.
class StrandTimer {
 public:
  // `owner` owns `strand` and this. A timer does not keep it alive, and does not fire once it is
  // gone.
  StrandTimer(CallThreads* threads, Strand* strand, std::weak_ptr<void> owner);
  ~StrandTimer() { Stop(); }
  StrandTimer(const StrandTimer&) = delete;
  StrandTimer& operator=(const StrandTimer&) = delete;

  // Runs `fire` once, after `delay`. Replaces an earlier start.
  void Start(absl::Duration delay, std::function<void()> fire);
  // Likewise at `deadline_ns` of MONOTONIC or a millisecond later, but keeps an earlier start that
  // fires before that. The caller must check its deadlines again whenever the timer fires; so a
  // deadline that moves with each message costs nothing.
  void StartBy(uint64_t deadline_ns, std::function<void()> fire);
  void Stop();
  bool running() const { return timer_.has_value(); }

 private:
  Timers* const timers_;
  Strand* const strand_;
  const std::weak_ptr<void> owner_;
  std::optional<Timers::Id> timer_;
  uint64_t fires_ns_ = 0;
  uint64_t generation_ = 0;  // of timer_: tasks that an earlier timer has posted are ignored
};

}  // namespace jobscope

#endif  // CLIENT_RPC_STRAND_TIMER_H_
