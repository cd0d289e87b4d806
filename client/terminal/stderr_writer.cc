// SPDX-License-Identifier: Apache-2.0
#include "client/terminal/stderr_writer.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace jobscope {
namespace {

// Enough for one line from each of several thousand workers; nobody reads more, and the manifest
// has them all.
constexpr size_t kMaxWaitingBytes = 1 << 20;

}  // namespace

// Guarded by `mutex`, the standard library's, because it waits on MONOTONIC
// (client/fan_out/mailbox.h).
struct StderrWriter::State {
  struct Piece {
    std::string text;
    bool redraws = false;
  };

  void Serve() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return !waiting.empty() || closing; });
      if (waiting.empty()) return;
      const Piece piece = std::move(waiting.front());
      waiting.pop_front();
      bytes -= piece.text.size();
      writing = true;
      lock.unlock();
      const ssize_t ignored = write(STDERR_FILENO, piece.text.data(), piece.text.size());
      static_cast<void>(ignored);
      lock.lock();
      writing = false;
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Piece> waiting;
  size_t bytes = 0;  // of those
  bool writing = false;
  bool closing = false;
};

StderrWriter::StderrWriter() : state_(std::make_shared<State>()) {}

StderrWriter::~StderrWriter() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->closing = true;
  state_->changed.notify_all();
}

void StderrWriter::Write(std::string text) { Post(std::move(text), /*redraws=*/false); }

void StderrWriter::Redraw(std::string text) { Post(std::move(text), /*redraws=*/true); }

void StderrWriter::Post(std::string text, bool redraws) {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    std::deque<State::Piece>& waiting = state_->waiting;
    if (redraws && !waiting.empty() && waiting.back().redraws) {
      state_->bytes -= waiting.back().text.size();
      waiting.pop_back();
    }
    if (state_->bytes + text.size() > kMaxWaitingBytes) return;
    state_->bytes += text.size();
    waiting.push_back({std::move(text), redraws});
    state_->changed.notify_all();
  }
  if (started_) return;
  try {
    std::thread([state = state_] { state->Serve(); }).detach();
    started_ = true;
  } catch (const std::system_error&) {
    // No thread is available: the next text tries again.
  }
}

void StderrWriter::Flush(absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->changed.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                           [this] { return state_->waiting.empty() && !state_->writing; });
}

}  // namespace jobscope
