// SPDX-License-Identifier: Apache-2.0
#include "common/process/fork_pause.h"

#include <pthread.h>
#include <time.h>

#include <atomic>

namespace jobscope {
namespace {

// Bounds a pause; a whole start takes less (bench/embed_cost). The bound is necessary because the
// forking thread may hold a lock that the start needs.
constexpr long kMaxPauseNs = 100'000'000;
constexpr int kMaxWaits = 10;
// A starved thread that needs no lock still ends its pause within these.
constexpr int kMaxWaitsForLockFree = 20;

// Forks hold it shared, a ForkPause exclusively. The pause has priority over later forks: threads
// that fork all the time would starve it. A child never takes the lock again.
pthread_rwlock_t pause_lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
// How many times kMaxPauseNs a fork waits for the pause in progress. Read without the lock: a fork
// that reads the value of the pause before or after waits too long or too short once, never for
// ever.
std::atomic<int> waits_for_pause{1};
// Forks of this thread in progress; only the outermost takes the lock.
thread_local int t_forks = 0;

timespec PauseEnd() {
  timespec end = {};
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_nsec += kMaxPauseNs;
  if (end.tv_nsec >= 1'000'000'000) {
    end.tv_nsec -= 1'000'000'000;
    ++end.tv_sec;
  }
  return end;
}

bool PauseForks() {
  const timespec end = PauseEnd();
  return pthread_rwlock_clockwrlock(&pause_lock, CLOCK_MONOTONIC, &end) == 0;
}

bool JoinForks() {
  const timespec end = PauseEnd();
  return pthread_rwlock_clockrdlock(&pause_lock, CLOCK_MONOTONIC, &end) == 0;
}

}  // namespace

ForkPause::ForkPause(Body body) : held_(PauseForks()) {
  if (held_ && body == Body::kTakesNoLocks) waits_for_pause.store(kMaxWaitsForLockFree);
}

ForkPause::~ForkPause() {
  if (!held_) return;
  waits_for_pause.store(1);
  pthread_rwlock_unlock(&pause_lock);
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
  if (t_forks == 0) {
    for (int waits = 1; !JoinForks(); ++waits) {
      if (waits >= waits_for_pause.load()) return false;
    }
  }
  ++t_forks;
  return true;
}

void EndFork() {
  if (t_forks == 0 || --t_forks > 0) return;
  pthread_rwlock_unlock(&pause_lock);
}

}  // namespace jobscope
