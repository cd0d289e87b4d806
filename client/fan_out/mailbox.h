// SPDX-License-Identifier: Apache-2.0
//
// Passes messages ("letters") from other threads to the one thread that decides.
#ifndef CLIENT_FAN_OUT_MAILBOX_H_
#define CLIENT_FAN_OUT_MAILBOX_H_

#include <chrono>
#include <deque>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/sync/mutex.h"

namespace jobscope {

// Queues letters for the deciding thread. Thread-safe. Unbounded, but each call in flight posts
// once. Waits on MONOTONIC.
class Mailbox {
 public:
  using Letter = absl::AnyInvocable<void()>;

  // Never blocks. After Close, destroys letters unread.
  void Post(Letter letter) {
    const MutexLock lock(&mutex_);
    if (closed_) return;
    letters_.push_back(std::move(letter));
    came_.NotifyOne();
  }

  // Blocks until there are letters, at most until `deadline` (SteadyNow, common/clock/monotonic.h);
  // returns all of them.
  std::deque<Letter> Wait(absl::Time deadline) {
    auto until = CondVar::Clock::time_point::max();
    if (deadline != absl::InfiniteFuture()) {
      until = CondVar::Clock::time_point(std::chrono::nanoseconds(absl::ToUnixNanos(deadline)));
    }
    std::deque<Letter> letters;
    const MutexLock lock(&mutex_);
    came_.WaitUntil(&mutex_, until,
                    [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !letters_.empty(); });
    letters.swap(letters_);
    return letters;
  }

  void Close() {
    std::deque<Letter> unread;
    const MutexLock lock(&mutex_);
    closed_ = true;
    unread.swap(letters_);
  }

 private:
  Mutex mutex_;
  CondVar came_;
  std::deque<Letter> letters_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_MAILBOX_H_
