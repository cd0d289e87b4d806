// SPDX-License-Identifier: Apache-2.0
//
// Asks a worker whether it is alive, over a connection of its own.
#ifndef CLIENT_NATIVE_LIFE_PROBE_H_
#define CLIENT_NATIVE_LIFE_PROBE_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "client/rpc/call_threads.h"

namespace jobscope {

// Calls Describe, one call at a time. The calls of all probes are bounded: each takes a descriptor.
// Not thread-safe.
class LifeProbe {
 public:
  using Dial = std::function<std::shared_ptr<grpc::Channel>()>;
  // Runs on one of `threads`, possibly after this is destroyed. `lost_there`: the worker is alive,
  // and has lost the connection of its capture.
  using Answered = std::function<void(const grpc::Status& status, bool lost_there)>;

  // At most `max_running` of this process run at a time. `dial` makes the connection. No answer
  // within `timeout` is DEADLINE_EXCEEDED.
  LifeProbe(int max_running, absl::Duration timeout, Dial dial, CallThreads* threads);
  ~LifeProbe();
  LifeProbe(const LifeProbe&) = delete;
  LifeProbe& operator=(const LifeProbe&) = delete;

  // Asks, unless too many are asked now. The caller then starts it again, not before next_ns().
  void Start(Answered answered);
  // The answer was `status`. Returns whether the worker is alive.
  bool Finish(const grpc::Status& status);
  // The answer is not needed any more.
  void Cancel();

  bool running() const { return running_ != nullptr; }
  // Instants on MONOTONIC; 0: none.
  uint64_t next_ns() const { return next_ns_; }
  uint64_t alive_ns() const { return alive_ns_; }  // when the worker last answered

 private:
  struct Running;

  const int max_running_;
  const absl::Duration timeout_;
  const Dial dial_;
  CallThreads* const threads_;
  std::unique_ptr<Running> running_;
  uint64_t next_ns_ = 0;
  uint64_t alive_ns_ = 0;
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_LIFE_PROBE_H_
