// SPDX-License-Identifier: Apache-2.0
//
// What other threads have to say to the one thread that decides.
#ifndef CLIENT_MAILBOX_H_
#define CLIENT_MAILBOX_H_

#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace jobscope {

// Thread-safe. Unbounded, but each call in flight posts once.
class Mailbox {
 public:
  using Letter = absl::AnyInvocable<void()>;

  // Never blocks. After Close letters are destroyed unread.
  void Post(Letter letter) {
    const absl::MutexLock lock(&mutex_);
    if (!closed_) letters_.push_back(std::move(letter));
  }

  // Waits for letters, at most until `deadline`; returns all there are.
  std::deque<Letter> Wait(absl::Time deadline) {
    std::deque<Letter> letters;
    const absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithDeadline(absl::Condition(this, &Mailbox::HasLetters), deadline);
    letters.swap(letters_);
    return letters;
  }

  void Close() {
    std::deque<Letter> unread;
    const absl::MutexLock lock(&mutex_);
    closed_ = true;
    unread.swap(letters_);
  }

 private:
  bool HasLetters() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !letters_.empty(); }

  absl::Mutex mutex_;
  std::deque<Letter> letters_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace jobscope

#endif  // CLIENT_MAILBOX_H_
