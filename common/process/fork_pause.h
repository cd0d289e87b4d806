// SPDX-License-Identifier: Apache-2.0
//
// Keeps the forks of other threads waiting for the few instructions in which a child would inherit
// what it can't live with: a socket that has no address yet (it can't be told in the child, which
// would hold the port from the bind on), or a lock of the program's that this thread has taken,
// which the child would find locked for ever.
#ifndef COMMON_PROCESS_FORK_PAUSE_H_
#define COMMON_PROCESS_FORK_PAUSE_H_

#include <functional>

namespace jobscope {

// While it lives, forks of other threads wait, for 100 ms at most. Waits itself, as long at most,
// for forks that are under way. The thread must not fork. Works once fork handlers call BeginFork
// and EndFork (InstallForkGuard of the server).
class ForkPause {
 public:
  ForkPause();
  ~ForkPause();
  ForkPause(const ForkPause&) = delete;
  ForkPause& operator=(const ForkPause&) = delete;

  // False: the forks that were under way did not end in time.
  bool held() const { return held_; }

 private:
  const bool held_;
};

// Runs `body` while no other thread forks. Waits at most 1 s for forks that are under way, which
// take that long in processes of hundreds of GB; runs `body` all the same after that.
void WhileNobodyForks(const std::function<void()>& body);

// Of the fork handlers of a process, on the thread that forks: before, and after in the parent.
// BeginFork waits for a pause to end; false: for 100 ms, and it goes on. They nest: a signal
// handler may fork in the middle of a fork.
bool BeginFork();
void EndFork();

}  // namespace jobscope

#endif  // COMMON_PROCESS_FORK_PAUSE_H_
