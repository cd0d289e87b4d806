// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/call_thread.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace jobscope::cuda {

struct CallThread::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> call;  // waits to be run, or runs
  std::string what;
  bool posted = false;
  bool running = false;
  bool ending = false;
  bool has_thread = false;
};

CallThread::CallThread() : state_(std::make_shared<State>()) {
  try {
    std::thread(&CallThread::Main, state_).detach();
    state_->has_thread = true;
  } catch (const std::system_error&) {
    // Without a thread every call is one that does not return.
  }
}

CallThread::~CallThread() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->ending = true;
  state_->changed.notify_all();
}

void CallThread::Main(const std::shared_ptr<State>& state) {
  std::unique_lock<std::mutex> lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->posted || state->ending; });
    if (!state->posted) return;
    state->posted = false;
    const std::function<void()> call = std::exchange(state->call, nullptr);
    lock.unlock();
    call();
    lock.lock();
    state->running = false;
    state->what.clear();
    state->changed.notify_all();
  }
}

bool CallThread::Post(std::string what, std::function<void()> call) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->running || !state_->has_thread) return false;
  state_->call = std::move(call);
  state_->what = std::move(what);
  state_->posted = state_->running = true;
  state_->changed.notify_all();
  return true;
}

bool CallThread::Wait(absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  return state_->changed.wait_for(lock, absl::ToChronoMicroseconds(timeout),
                                  [&] { return !state_->running; });
}

bool CallThread::Run(std::string what, absl::Duration timeout, std::function<void()> call) {
  return Post(std::move(what), std::move(call)) && Wait(timeout);
}

bool CallThread::busy() { return !Wait(absl::ZeroDuration()); }

std::string CallThread::running() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->what;
}

}  // namespace jobscope::cuda
