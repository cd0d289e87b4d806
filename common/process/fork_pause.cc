// SPDX-License-Identifier: Apache-2.0
#include "common/process/fork_pause.h"

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <chrono>

#include "jobscope/detail/ticks.h"

namespace jobscope {
namespace {

using std::chrono::milliseconds;

// A pause takes microseconds, but its thread may wait for a CPU meanwhile (with ThreadSanitizer,
// beside two busy loops on two cores: more than 100 ms in one run of 50). The bound is necessary
// because the forking thread may hold a lock that the pause's needs.
constexpr milliseconds kMaxPause(2000);
// Maximum time for which a pause waits for the lock, because other forks wait behind it.
constexpr milliseconds kMaxWaitForForks(100);
constexpr int kMaxWaits = 10;

// Forks hold it shared, a ForkPause exclusively. The pause has priority over later forks: threads
// that fork all the time would starve it. A child begins with a new one.
constexpr pthread_rwlock_t kNewLock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
pthread_rwlock_t pause_lock = kNewLock;
// Forks of this thread in progress; only the outermost takes the lock.
thread_local int t_forks = 0;

timespec After(milliseconds wait) {
  const std::chrono::nanoseconds end = std::chrono::nanoseconds(detail::MonotonicNs()) + wait;
  timespec after = {};
  after.tv_sec = static_cast<time_t>(end / std::chrono::seconds(1));
  after.tv_nsec = static_cast<long>((end % std::chrono::seconds(1)).count());
  return after;
}

bool PauseForks() {
  const timespec end = After(kMaxWaitForForks);
  return pthread_rwlock_clockwrlock(&pause_lock, CLOCK_MONOTONIC, &end) == 0;
}

bool JoinForks() {
  const timespec end = After(kMaxPause);
  return pthread_rwlock_clockrdlock(&pause_lock, CLOCK_MONOTONIC, &end) == 0;
}

void BeforeFork() {
  const int saved_errno = errno;
  (void)BeginFork();
  errno = saved_errno;
}

// The lock may count waiting threads, which do not exist in the child. ThreadSanitizer would report
// a data race with them.
__attribute__((no_sanitize("thread"))) void OnForkInChild() {
  while (t_forks > 0) EndFork();
  pause_lock = kNewLock;
}

}  // namespace

void InstallForkPause() {
  static std::atomic<bool> installed{false};
  // Fails only if memory runs out; forks then do not wait.
  if (!installed.exchange(true)) pthread_atfork(&BeforeFork, &EndFork, &OnForkInChild);
}

ForkPause::ForkPause() : held_(PauseForks()) {}

ForkPause::ForkPause(std::try_to_lock_t) : held_(pthread_rwlock_trywrlock(&pause_lock) == 0) {}

ForkPause::~ForkPause() {
  if (held_) pthread_rwlock_unlock(&pause_lock);
}

void WhileNobodyForks(const std::function<void()>& body) {
  for (int wait = 1; wait < kMaxWaits; ++wait) {
    const ForkPause pause;
    if (pause.held()) return body();
  }
  const ForkPause pause;
  body();
}

bool BeginFork() {
  if (t_forks == 0 && !JoinForks()) return false;
  ++t_forks;
  return true;
}

void EndFork() {
  if (t_forks == 0 || --t_forks > 0) return;
  pthread_rwlock_unlock(&pause_lock);
}

}  // namespace jobscope
