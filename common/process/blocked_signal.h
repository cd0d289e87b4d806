// SPDX-License-Identifier: Apache-2.0
//
// Blocks signals that our writes may raise in the host process.
#ifndef COMMON_PROCESS_BLOCKED_SIGNAL_H_
#define COMMON_PROCESS_BLOCKED_SIGNAL_H_

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

namespace jobscope {

// Blocks a signal in this thread for the time of a write, and discards it if the write raised it.
// SIGPIPE (no reader) and SIGXFSZ (over RLIMIT_FSIZE) accompany an error of write(2), and their
// default ends the process. This code runs inside workers, where it may neither kill the job nor
// change its signal handlers.
class BlockedSignal {
 public:
  explicit BlockedSignal(int number) : number_(number) {
    sigemptyset(&set_);
    sigaddset(&set_, number);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
    sigset_t pending;
    was_pending_ = sigpending(&pending) == 0 && sigismember(&pending, number_) == 1;
  }
  ~BlockedSignal() {
    if (raised_ && !was_pending_) {
      const timespec at_once{};
      while (sigtimedwait(&set_, nullptr, &at_once) < 0 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  BlockedSignal(const BlockedSignal&) = delete;
  BlockedSignal& operator=(const BlockedSignal&) = delete;

  // Call it when the write has failed with the error that accompanies the signal.
  void Raised() { raised_ = true; }

 private:
  const int number_;
  sigset_t set_{};
  sigset_t before_{};
  bool was_pending_ = false;
  bool raised_ = false;
};

}  // namespace jobscope

#endif  // COMMON_PROCESS_BLOCKED_SIGNAL_H_
