// SPDX-License-Identifier: Apache-2.0
//
// Passes messages ("letters") from other threads to the one thread that decides.
#ifndef CLIENT_FAN_OUT_MAILBOX_H_
#define CLIENT_FAN_OUT_MAILBOX_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"

namespace jobscope {

// Queues letters for the deciding thread. Thread-safe. Unbounded, but each call in flight posts
// once. Waits on MONOTONIC, therefore uses the standard library: absl::Mutex waits on REALTIME,
// which may be set meanwhile.
class Mailbox {
 public:
  using Letter = absl::AnyInvocable<void()>;

  // Never blocks. After Close, destroys letters unread.
  void Post(Letter letter) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return;
    letters_.push_back(std::move(letter));
    came_.notify_one();
  }

  // Blocks until there are letters, at most until `deadline` (SteadyNow, client/clock/monotonic.h);
  // returns all of them.
  std::deque<Letter> Wait(absl::Time deadline) {
    const auto has_letters = [this] { return !letters_.empty(); };
    std::deque<Letter> letters;
    std::unique_lock<std::mutex> lock(mutex_);
    if (deadline == absl::InfiniteFuture()) {
      came_.wait(lock, has_letters);
    } else {
      const std::chrono::nanoseconds since_boot(absl::ToUnixNanos(deadline));
      came_.wait_until(lock, std::chrono::steady_clock::time_point(since_boot), has_letters);
    }
    letters.swap(letters_);
    return letters;
  }

  void Close() {
    std::deque<Letter> unread;
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    unread.swap(letters_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Letter> letters_;  // these two guarded by mutex_
  bool closed_ = false;
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_MAILBOX_H_
