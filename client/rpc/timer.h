// SPDX-License-Identifier: Apache-2.0
//
// Runs a function later, on the threads on which answers arrive.
#ifndef CLIENT_RPC_TIMER_H_
#define CLIENT_RPC_TIMER_H_

#include <grpcpp/alarm.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "client/rpc/call_threads.h"

namespace jobscope {

// Runs a function once, after a delay. Thread-safe. Owns itself until it has fired or was
// cancelled, so the pointer need not be kept; but CallThreads waits for it when it ends, so cancel
// a distant one. Starting a timer requires a Lease.
class Timer : public CallThreads::Call {
 public:
  // Runs `fire` once, after `delay` or soon after that, unless cancelled before. `fire` must not
  // block.
  static std::shared_ptr<Timer> Start(CallThreads* threads, absl::Duration delay,
                                      std::function<void()> fire);

  // `fire` may be running, or have run. Call it at most once.
  void Cancel() { alarm_.Cancel(); }

  void OnDone(bool ok) override;

 private:
  Timer(CallThreads* threads, absl::Duration delay, std::function<void()> fire);

  CallThreads* const threads_;
  const uint64_t due_ns_;  // on MONOTONIC
  std::function<void()> fire_;
  grpc::Alarm alarm_;
  std::shared_ptr<Timer> self_;  // until OnDone
};

}  // namespace jobscope

#endif  // CLIENT_RPC_TIMER_H_
