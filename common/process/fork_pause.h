// SPDX-License-Identifier: Apache-2.0
//
// Delays forks of other threads during the few instructions in which a child would inherit
// something harmful: a socket without an address yet (which the child cannot detect, and which
// would hold the port from the bind on), or a lock of the program that this thread holds, which
// would stay locked in the child for ever.
#ifndef COMMON_PROCESS_FORK_PAUSE_H_
#define COMMON_PROCESS_FORK_PAUSE_H_

#include <functional>
#include <mutex>

namespace jobscope {

// Makes forks of other threads wait while it lives, but for at most 2 s: a forking thread may hold
// a lock that this one waits for. Blocks for at most 100 ms for forks in progress. Its thread must
// not fork. Works after InstallForkPause.
class ForkPause {
 public:
  ForkPause();
  // Does not wait for forks in progress.
  explicit ForkPause(std::try_to_lock_t);
  ~ForkPause();
  ForkPause(const ForkPause&) = delete;
  ForkPause& operator=(const ForkPause&) = delete;

  // False: the forks in progress did not end in time.
  bool held() const { return held_; }

 private:
  const bool held_;
};

// Runs `body` while no other thread forks. Waits for at most 1 s for forks in progress, which take
// that long in processes of hundreds of GB; runs `body` even if they have not ended.
void WhileNobodyForks(const std::function<void()>& body);

// Registers the fork handlers that wait for a pause, once per process; further calls do nothing. A
// child begins without a pause. The code that contains it must stay loaded (`-z nodelete`).
void InstallForkPause();

// Called by those handlers on the forking thread, before the fork and after it in the parent.
// BeginFork waits for a pause to end, for at most 2 s; false: it did not end.
// The calls nest: a signal handler may fork in the middle of a fork.
bool BeginFork();
void EndFork();

}  // namespace jobscope

#endif  // COMMON_PROCESS_FORK_PAUSE_H_
