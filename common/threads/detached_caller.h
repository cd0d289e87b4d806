// SPDX-License-Identifier: Apache-2.0
//
// Runs calls that may never return, with time limits.
#ifndef COMMON_THREADS_DETACHED_CALLER_H_
#define COMMON_THREADS_DETACHED_CALLER_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"

namespace jobscope {

// Runs calls into foreign code that may hang (CUPTI, or acquiring the GIL) on a thread of its own.
// Runs one call at a time. A waiter stops waiting after a timeout, and the call continues alone: it
// may only use what it owns or what lives as long as the process. The thread ends with this object,
// or with the call running at that time. A call may also end its thread (Python does that to
// threads that acquire the GIL while it shuts down): it then counts as one that does not return.
//
// Not thread-safe: belongs to the thread that made it. A call that throws ends the thread.
class DetachedCaller {
 public:
  // `thread_name`: at most 15 bytes, as the OS shows it.
  explicit DetachedCaller(const char* thread_name);
  ~DetachedCaller();
  DetachedCaller(const DetachedCaller&) = delete;
  DetachedCaller& operator=(const DetachedCaller&) = delete;

  // False: no thread could be created, and no call will run.
  bool has_thread() const { return has_thread_; }

  // Starts a call if none is running. `what` names it in reasons.
  bool Post(std::string what, std::function<void()> call);
  // Waits for the call. True: no call is running, and what the last one owned is destroyed. In the
  // second half of `timeout`, which begins when this thread has noticed the end of the first, time
  // that the call's thread waits for a processor does not count: it does not hang.
  bool Wait(absl::Duration timeout);
  // Posts a call and waits for it. False: an earlier call, or this one, has not returned in time.
  bool Run(std::string what, absl::Duration timeout, std::function<void()> call);

  bool busy() { return !Wait(absl::ZeroDuration()); }
  // Returns the name of the running call; empty if there is none.
  std::string running() const;

 private:
  struct State;
  static void Main(const std::shared_ptr<State>& state);
  const std::shared_ptr<State> state_;
  bool has_thread_ = false;
  pid_t tid_ = 0;  // of the thread
};

}  // namespace jobscope

#endif  // COMMON_THREADS_DETACHED_CALLER_H_
