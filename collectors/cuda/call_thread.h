// SPDX-License-Identifier: Apache-2.0
//
// Calls into CUPTI, under a watchdog.
#ifndef COLLECTORS_CUDA_CALL_THREAD_H_
#define COLLECTORS_CUDA_CALL_THREAD_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"

namespace jobscope::cuda {

// A thread of its own for calls that may hang. One call at a time; whoever waits for it gives up
// after a time, and the call goes on alone: it must hold only what lives as long as the process, or
// what it owns. The thread ends with this object, or, if a call hangs, with that call's return.
// Not thread-safe: belongs to the collector's thread. The thread inherits the creator's signal
// mask.
class CallThread {
 public:
  CallThread();
  ~CallThread();
  CallThread(const CallThread&) = delete;
  CallThread& operator=(const CallThread&) = delete;

  // Begins a call, if none runs. `what` names it in reasons.
  bool Post(std::string what, std::function<void()> call);
  // True: no call runs.
  bool Wait(absl::Duration timeout);
  // Both. False: an earlier call, or this one, has not returned in time.
  bool Run(std::string what, absl::Duration timeout, std::function<void()> call);

  bool busy();
  // The call that runs; empty: none.
  std::string running();

 private:
  struct State;
  static void Main(const std::shared_ptr<State>& state);
  const std::shared_ptr<State> state_;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_CALL_THREAD_H_
