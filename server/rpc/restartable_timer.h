// SPDX-License-Identifier: Apache-2.0
//
// Runs one function later; which one may be replaced until it runs.
#ifndef SERVER_RPC_RESTARTABLE_TIMER_H_
#define SERVER_RPC_RESTARTABLE_TIMER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "server/rpc/grpc_timer.h"

namespace jobscope {

// Cancelling a GrpcTimer does not stop a function that has begun to run and waits for its owner's
// lock. So each start has a number, which the function receives: it acquires the lock, and does
// nothing unless its number IsCurrent. Not thread-safe: all calls need the owner's lock.
class RestartableTimer {
 public:
  // Runs `body(number)` after `delay` on a thread of gRPC, instead of the function before. Returns
  // false if memory has run out: nothing will run.
  template <typename Body>
  bool Start(absl::Duration delay, Body body) {
    ++number_;
    timer_ = TryRunAfter(delay, [body = std::move(body), number = number_] { body(number); });
    return timer_ != nullptr;
  }

  // Nothing will run. Returns the timer (may be null), to be destroyed without the owner's lock.
  std::unique_ptr<GrpcTimer> Cancel() {
    ++number_;
    return std::move(timer_);
  }

  // Returns whether `number` is that of the latest Start, and was not cancelled.
  bool IsCurrent(uint64_t number) const { return number == number_; }

 private:
  uint64_t number_ = 0;
  std::unique_ptr<GrpcTimer> timer_;  // null: never started, cancelled, or out of memory
};

}  // namespace jobscope

#endif  // SERVER_RPC_RESTARTABLE_TIMER_H_
