// SPDX-License-Identifier: Apache-2.0
//
// Calls that may never return, under a watchdog.
#ifndef COMMON_THREADS_DETACHED_CALLER_H_
#define COMMON_THREADS_DETACHED_CALLER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"

namespace jobscope {

// A thread of its own for calls into what is not ours and may hang: CUPTI, or the GIL. One
// call at a time; whoever waits for it gives up after a time, and the call goes on alone: it must
// hold only what lives as long as the process, or what it owns. The thread ends with this object,
// or with the call that runs then. A call may also end its thread (Python does that to whoever
// wants its lock while it shuts down): then it counts as one that does not return.
//
// Not thread-safe: belongs to the thread that made it. A call that throws ends the thread.
class DetachedCaller {
 public:
  // `thread_name`: at most 15 bytes, as the OS shows it.
  explicit DetachedCaller(const char* thread_name);
  ~DetachedCaller();
  DetachedCaller(const DetachedCaller&) = delete;
  DetachedCaller& operator=(const DetachedCaller&) = delete;

  // False: the system gave no thread, and no call will run.
  bool has_thread() const;

  // Begins a call, if none runs. `what` names it in reasons.
  bool Post(std::string what, std::function<void()> call);
  // True: no call runs, and what the last one owned is destroyed.
  bool Wait(absl::Duration timeout);
  // Both. False: an earlier call, or this one, has not returned in time.
  bool Run(std::string what, absl::Duration timeout, std::function<void()> call);

  bool busy() { return !Wait(absl::ZeroDuration()); }
  // The call that runs; empty: none.
  std::string running() const;

 private:
  struct State;
  static void Main(const std::shared_ptr<State>& state);
  const std::shared_ptr<State> state_;
};

}  // namespace jobscope

#endif  // COMMON_THREADS_DETACHED_CALLER_H_
