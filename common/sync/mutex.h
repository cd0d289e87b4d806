// SPDX-License-Identifier: Apache-2.0
//
// std::mutex with annotations that clang checks (-Wthread-safety).
#ifndef COMMON_SYNC_MUTEX_H_
#define COMMON_SYNC_MUTEX_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

// Annotates a constructor that releases what the destructor reacquires. Abseil's macro says neither
// exclusive nor shared, and clang then ignores the reacquiring.
#if defined(__clang__)
#define JOBSCOPE_RELEASES(mutex) __attribute__((release_capability(mutex)))
#else
#define JOBSCOPE_RELEASES(mutex)
#endif

namespace jobscope {

// A std::mutex with annotations. Use it where absl::Mutex would do harm: in fork handlers and in
// callbacks of foreign libraries. ThreadSanitizer understands it even in an uninstrumented library,
// and its waits use MONOTONIC, those of absl::Mutex REALTIME.
class ABSL_LOCKABLE Mutex {
 public:
  constexpr Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex while it exists.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {
    if (mutex_ != nullptr) mutex_->Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  // Releases the mutex before the end of the block. At most once.
  void Release() ABSL_UNLOCK_FUNCTION() {
    mutex_->Unlock();
    mutex_ = nullptr;
  }

 private:
  Mutex* mutex_;
};

// Releases a held mutex while it exists; reacquires it when the block is left, also by an
// exception.
class ABSL_SCOPED_LOCKABLE MutexUnlock {
 public:
  explicit MutexUnlock(Mutex* mutex) JOBSCOPE_RELEASES(mutex) : mutex_(mutex) { mutex_->Unlock(); }
  ~MutexUnlock() ABSL_UNLOCK_FUNCTION() { mutex_->Lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex* const mutex_;
};

// A std::condition_variable. Calls conditions with the mutex held; annotate one that reads guarded
// members: [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return done_; }.
class CondVar {
 public:
  using Clock = std::chrono::steady_clock;

  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

  // Waits until `condition` is true.
  template <typename Condition>
  void Wait(Mutex* mutex, Condition condition)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const Adopted held(mutex);
    changed_.wait(held.lock(), condition);
  }

  // Waits until `condition` is true or `deadline` has passed; Clock::time_point::max(): without a
  // limit. Returns `condition`.
  template <typename Condition>
  bool WaitUntil(Mutex* mutex, Clock::time_point deadline, Condition condition)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const Adopted held(mutex);
    if (deadline != Clock::time_point::max()) {  // where the standard's version overflows
      return changed_.wait_until(held.lock(), deadline, condition);
    }
    changed_.wait(held.lock(), condition);
    return true;
  }

  // Does the same for at most `timeout`.
  template <typename Condition>
  bool WaitFor(Mutex* mutex, absl::Duration timeout, Condition condition)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return WaitUntil(mutex, DeadlineAfter(timeout), condition);
  }
  // Waits once: returns when notified, after `timeout`, or spuriously.
  void WaitFor(Mutex* mutex, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const Adopted held(mutex);
    changed_.wait_until(held.lock(), DeadlineAfter(timeout));
  }

 private:
  // Lends the thread's hold on a mutex to the standard library.
  class Adopted {
   public:
    explicit Adopted(Mutex* mutex) : lock_(mutex->mutex_, std::adopt_lock) {}
    ~Adopted() { lock_.release(); }
    Adopted(const Adopted&) = delete;
    Adopted& operator=(const Adopted&) = delete;
    std::unique_lock<std::mutex>& lock() const { return lock_; }

   private:
    mutable std::unique_lock<std::mutex> lock_;
  };

  static Clock::time_point DeadlineAfter(absl::Duration timeout) {
    const Clock::time_point now = Clock::now();
    if (timeout >= absl::FromChrono(Clock::time_point::max() - now))
      return Clock::time_point::max();
    return now + absl::ToChronoNanoseconds(std::max(timeout, absl::ZeroDuration()));
  }

  std::condition_variable changed_;
};

}  // namespace jobscope

#endif  // COMMON_SYNC_MUTEX_H_
