// SPDX-License-Identifier: Apache-2.0
#include "common/threads/detached_caller.h"

#include <utility>

#include "common/process/starvation.h"
#include "common/sync/mutex.h"
#include "common/threads/worker_thread.h"

namespace jobscope {

struct DetachedCaller::State {
  Mutex mutex;
  CondVar changed;
  std::function<void()> call ABSL_GUARDED_BY(mutex);  // queued call
  std::string what ABSL_GUARDED_BY(mutex);
  bool busy ABSL_GUARDED_BY(mutex) = false;  // a call is queued or running
  bool ending ABSL_GUARDED_BY(mutex) = false;
};

DetachedCaller::DetachedCaller(const char* thread_name) : state_(std::make_shared<State>()) {
  // Without a thread, every call counts as one that does not return.
  const auto main = [state = state_] { Main(state); };
  has_thread_ = StartWorkerThread(thread_name, main, &tid_).ok();
}

DetachedCaller::~DetachedCaller() {
  const MutexLock lock(&state_->mutex);
  state_->ending = true;
  state_->changed.NotifyAll();
}

void DetachedCaller::Main(const std::shared_ptr<State>& state) {
  const MutexLock lock(&state->mutex);
  while (true) {
    state->changed.Wait(&state->mutex, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mutex) {
      return state->call != nullptr || state->ending;
    });
    if (state->call == nullptr) return;
    std::function<void()> call = std::exchange(state->call, nullptr);
    {
      const MutexUnlock unlocked(&state->mutex);
      call();
      call = nullptr;  // destroys what the call owns before anybody learns that it is done
    }
    state->busy = false;
    state->what.clear();
    state->changed.NotifyAll();
  }
}

bool DetachedCaller::Post(std::string what, std::function<void()> call) {
  const MutexLock lock(&state_->mutex);
  if (state_->busy || !has_thread_) return false;
  state_->call = std::move(call);
  state_->what = std::move(what);
  state_->busy = true;
  state_->changed.NotifyAll();
  return true;
}

bool DetachedCaller::Wait(absl::Duration timeout) {
  const MutexLock lock(&state_->mutex);
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex) { return !state_->busy; };
  if (timeout <= absl::ZeroDuration()) return idle();
  // Most calls return in the first half, which asks the kernel nothing.
  if (state_->changed.WaitFor(&state_->mutex, timeout / 2, idle)) return true;
  const Starvation starvation(tid_);
  const auto begin = Starvation::Clock::now();
  absl::Duration left = timeout / 2;
  while (!state_->changed.WaitFor(&state_->mutex, left, idle)) {
    {  // a thread that waits for the lock would look as if it hung
      const MutexUnlock unlocked(&state_->mutex);
      left = timeout / 2 + absl::FromChrono(starvation.Lasted()) -
             absl::FromChrono(Starvation::Clock::now() - begin);
    }
    if (left <= absl::ZeroDuration()) return idle();
  }
  return true;
}

bool DetachedCaller::Run(std::string what, absl::Duration timeout, std::function<void()> call) {
  return Post(std::move(what), std::move(call)) && Wait(timeout);
}

std::string DetachedCaller::running() const {
  const MutexLock lock(&state_->mutex);
  return state_->what;
}

}  // namespace jobscope
