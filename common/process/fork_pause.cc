// SPDX-License-Identifier: Apache-2.0
#include "common/process/fork_pause.h"

#include <pthread.h>
#include <time.h>

namespace jobscope {
namespace {

// Longer than a whole start takes (bench/embed_cost). It is a bound because the forking thread may
// itself hold a lock that its making needs.
constexpr long kMaxPauseNs = 100'000'000;
constexpr int kMaxWaits = 10;

// Forks share it, a ForkPause has it alone, and goes before forks that come later: threads that
// fork all the time would keep it waiting for ever. A child never takes it again.
pthread_rwlock_t pause_lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
// Forks of this thread that are under way; they take the lock once.
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

}  // namespace

ForkPause::ForkPause() : held_(PauseForks()) {}

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
  if (t_forks == 0) {
    const timespec end = PauseEnd();
    if (pthread_rwlock_clockrdlock(&pause_lock, CLOCK_MONOTONIC, &end) != 0) return false;
  }
  ++t_forks;
  return true;
}

void EndFork() {
  if (t_forks == 0 || --t_forks > 0) return;
  pthread_rwlock_unlock(&pause_lock);
}

}  // namespace jobscope
