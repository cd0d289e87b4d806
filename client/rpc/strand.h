// SPDX-License-Identifier: Apache-2.0
//
// Runs jobs one after the other, on the threads that post them.
#ifndef CLIENT_RPC_STRAND_H_
#define CLIENT_RPC_STRAND_H_

#include <deque>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

namespace jobscope {

// Serialises jobs. Thread-safe. Jobs run in the order in which they were posted, never two at a
// time, and without a lock, so a job may post. The posting thread runs its job, and those that
// others post meanwhile, unless another thread is already running jobs.
class Strand {
 public:
  using Job = absl::AnyInvocable<void()>;

  void Post(Job job) {
    {
      const absl::MutexLock lock(&state_->mutex);
      state_->jobs.push_back(std::move(job));
      if (std::exchange(state_->running, true)) return;
    }
    // A job may release the last reference to the strand's owner.
    const std::shared_ptr<State> state = state_;
    while (true) {
      Job next;
      {
        const absl::MutexLock lock(&state->mutex);
        if (state->jobs.empty()) {
          state->running = false;
          return;
        }
        next = std::move(state->jobs.front());
        state->jobs.pop_front();
      }
      next();
    }
  }

 private:
  struct State {
    absl::Mutex mutex;
    std::deque<Job> jobs ABSL_GUARDED_BY(mutex);
    bool running ABSL_GUARDED_BY(mutex) = false;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace jobscope

#endif  // CLIENT_RPC_STRAND_H_
