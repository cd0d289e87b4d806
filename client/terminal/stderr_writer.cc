// SPDX-License-Identifier: Apache-2.0
#include "client/terminal/stderr_writer.h"

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <utility>

#include "common/sync/mutex.h"
#include "common/threads/thread_group.h"

namespace jobscope {
namespace {

// Enough for one line from each of several thousand workers; nobody reads more, and the manifest
// has them all.
constexpr size_t kMaxWaitingBytes = 1 << 20;

}  // namespace
struct StderrWriter::State {
  struct Piece {
    std::string text;
    bool redraws = false;
  };

  void Serve() {
    const MutexLock lock(&mutex);
    while (true) {
      changed.Wait(&mutex, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
        return !waiting.empty() || closing;
      });
      if (waiting.empty()) return;
      const Piece piece = std::move(waiting.front());
      waiting.pop_front();
      bytes -= piece.text.size();
      writing = true;
      {
        const MutexUnlock unlocked(&mutex);
        const ssize_t ignored = write(STDERR_FILENO, piece.text.data(), piece.text.size());
        static_cast<void>(ignored);
      }
      writing = false;
      changed.NotifyAll();
    }
  }

  Mutex mutex;
  CondVar changed;
  std::deque<Piece> waiting ABSL_GUARDED_BY(mutex);
  size_t bytes ABSL_GUARDED_BY(mutex) = 0;  // of those
  bool writing ABSL_GUARDED_BY(mutex) = false;
  bool closing ABSL_GUARDED_BY(mutex) = false;
};

StderrWriter::StderrWriter() : state_(std::make_shared<State>()) {}

StderrWriter::~StderrWriter() {
  const MutexLock lock(&state_->mutex);
  state_->closing = true;
  state_->changed.NotifyAll();
}

void StderrWriter::Write(std::string text) { Post(std::move(text), /*redraws=*/false); }

void StderrWriter::Redraw(std::string text) { Post(std::move(text), /*redraws=*/true); }

void StderrWriter::Post(std::string text, bool redraws) {
  {
    const MutexLock lock(&state_->mutex);
    std::deque<State::Piece>& waiting = state_->waiting;
    if (redraws && !waiting.empty() && waiting.back().redraws) {
      state_->bytes -= waiting.back().text.size();
      waiting.pop_back();
    }
    if (state_->bytes + text.size() > kMaxWaitingBytes) return;
    state_->bytes += text.size();
    waiting.push_back({std::move(text), redraws});
    state_->changed.NotifyAll();
  }
  // Without a thread, the next text tries again.
  if (!started_) started_ = StartDetachedThread([state = state_] { state->Serve(); });
}

void StderrWriter::Flush(absl::Duration timeout) {
  const MutexLock lock(&state_->mutex);
  state_->changed.WaitFor(&state_->mutex, timeout,
                          [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex) {
                            return state_->waiting.empty() && !state_->writing;
                          });
}

}  // namespace jobscope
