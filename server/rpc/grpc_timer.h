// SPDX-License-Identifier: Apache-2.0
//
// Runs work later on gRPC's own threads: the server has no thread for it.
#ifndef SERVER_RPC_GRPC_TIMER_H_
#define SERVER_RPC_GRPC_TIMER_H_

#include <functional>
#include <memory>
#include <new>
#include <utility>

#include "absl/time/time.h"

namespace jobscope {

// Runs `body` once, soon, and never on the caller's thread. Costs the caller a few microseconds; if
// three functions wait, gRPC may start another thread of its own here, which then keeps the
// caller's signal mask. So only threads that block the application's signals may call it: ours and
// gRPC's, never the application's. `body` may throw, as below.
void RunSoon(std::function<void()> body);

// A function that runs later. Thread-safe.
class GrpcTimer {
 public:
  ~GrpcTimer();  // cancels it
  GrpcTimer(const GrpcTimer&) = delete;
  GrpcTimer& operator=(const GrpcTimer&) = delete;

  // Releases the function, unless it has begun to run. Starts no thread of gRPC's if it was due
  // within 5 s. Throws nothing.
  void Cancel();

 private:
  friend std::unique_ptr<GrpcTimer> RunAfter(absl::Duration delay, std::function<void()> body);
  struct Wait;
  GrpcTimer(std::shared_ptr<Wait> wait, absl::Time due);

  const std::shared_ptr<Wait> wait_;
  const absl::Time due_;  // SteadyNow
};

// Runs `body` once after `delay`, unless the timer is destroyed first. `body` may run while the
// timer is being destroyed, and may destroy it: it must own the objects that it uses, by a
// weak_ptr if they own the timer. An exception of `body` (out of memory) ends only `body`, and is
// logged once per process: nothing above it on gRPC's threads would catch it.
std::unique_ptr<GrpcTimer> RunAfter(absl::Duration delay, std::function<void()> body);

// The same, but returns null if memory has run out, which copying `body` needs, too: for callers
// that must then act at once.
template <typename Body>
std::unique_ptr<GrpcTimer> TryRunAfter(absl::Duration delay, Body body) {
  try {
    return RunAfter(delay, std::move(body));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace jobscope

#endif  // SERVER_RPC_GRPC_TIMER_H_
