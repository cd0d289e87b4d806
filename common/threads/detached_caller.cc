// SPDX-License-Identifier: Apache-2.0
#include "common/threads/detached_caller.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "common/threads/worker_thread.h"

namespace jobscope {

struct DetachedCaller::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> call;  // queued call
  std::string what;
  bool busy = false;  // a call is queued or running
  bool ending = false;
  bool has_thread = false;
};

DetachedCaller::DetachedCaller(const char* thread_name) : state_(std::make_shared<State>()) {
  // Without a thread, every call counts as one that does not return.
  state_->has_thread = StartWorkerThread(thread_name, [state = state_] { Main(state); }).ok();
}

DetachedCaller::~DetachedCaller() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->ending = true;
  state_->changed.notify_all();
}

void DetachedCaller::Main(const std::shared_ptr<State>& state) {
  std::unique_lock<std::mutex> lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->call != nullptr || state->ending; });
    if (state->call == nullptr) return;
    std::function<void()> call = std::exchange(state->call, nullptr);
    lock.unlock();
    call();
    call = nullptr;  // destroys what the call owns before anybody learns that it is done
    lock.lock();
    state->busy = false;
    state->what.clear();
    state->changed.notify_all();
  }
}

bool DetachedCaller::has_thread() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->has_thread;
}

bool DetachedCaller::Post(std::string what, std::function<void()> call) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->busy || !state_->has_thread) return false;
  state_->call = std::move(call);
  state_->what = std::move(what);
  state_->busy = true;
  state_->changed.notify_all();
  return true;
}

bool DetachedCaller::Wait(absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  return state_->changed.wait_for(lock, absl::ToChronoMicroseconds(timeout),
                                  [&] { return !state_->busy; });
}

bool DetachedCaller::Run(std::string what, absl::Duration timeout, std::function<void()> call) {
  return Post(std::move(what), std::move(call)) && Wait(timeout);
}

std::string DetachedCaller::running() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->what;
}

}  // namespace jobscope
