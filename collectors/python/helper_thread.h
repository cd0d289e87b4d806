// SPDX-License-Identifier: Apache-2.0
//
// A thread of its own for whatever waits for Python's lock.
#ifndef COLLECTORS_PYTHON_HELPER_THREAD_H_
#define COLLECTORS_PYTHON_HELPER_THREAD_H_

#include <functional>
#include <memory>

#include "absl/time/time.h"

namespace jobscope::python {

// One job at a time; whoever waits for it gives up after a time, and the job goes on alone: it must
// hold only what it owns. The thread ends with this object, or with the job that is running then;
// or Python ends it, when it wants the lock while the interpreter shuts down: then its job never
// returns. Not thread-safe: belongs to the collector's thread, whose signal mask it inherits.
class HelperThread {
 public:
  HelperThread();
  ~HelperThread();
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  // Begins a job, if none runs.
  bool Post(std::function<void()> job);
  // True: no job runs.
  bool Wait(absl::Duration timeout);
  // Both. False: an earlier job, or this one, has not returned in time.
  bool Run(absl::Duration timeout, std::function<void()> job);

 private:
  struct State;
  static void Main(const std::shared_ptr<State>& state);
  const std::shared_ptr<State> state_;
};

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_HELPER_THREAD_H_
