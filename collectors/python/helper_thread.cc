// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/helper_thread.h"

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace jobscope::python {

struct HelperThread::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> job;
  bool busy = false;
  bool ending = false;
  bool has_thread = false;
};

HelperThread::HelperThread() : state_(std::make_shared<State>()) {
  try {
    std::thread(&HelperThread::Main, state_).detach();
    state_->has_thread = true;
  } catch (const std::system_error&) {
    // Without a thread every job is one that does not return.
  }
}

HelperThread::~HelperThread() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->ending = true;
  state_->changed.notify_all();
}

void HelperThread::Main(const std::shared_ptr<State>& state) {
  pthread_setname_np(pthread_self(), "jobscope-python");
  std::unique_lock<std::mutex> lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->job != nullptr || state->ending; });
    if (state->job == nullptr) return;
    std::function<void()> job = std::exchange(state->job, nullptr);
    lock.unlock();
    job();
    job = nullptr;  // lets go of what it owns before anybody hears that it is done
    lock.lock();
    state->busy = false;
    state->changed.notify_all();
  }
}

bool HelperThread::Post(std::function<void()> job) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->busy || !state_->has_thread) return false;
  state_->job = std::move(job);
  state_->busy = true;
  state_->changed.notify_all();
  return true;
}

bool HelperThread::Wait(absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  return state_->changed.wait_for(lock, absl::ToChronoMicroseconds(timeout),
                                  [&] { return !state_->busy; });
}

bool HelperThread::Run(absl::Duration timeout, std::function<void()> job) {
  return Post(std::move(job)) && Wait(timeout);
}

}  // namespace jobscope::python
