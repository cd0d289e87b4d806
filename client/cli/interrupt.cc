// SPDX-License-Identifier: Apache-2.0
#include "client/cli/interrupt.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "client/worker/verdict.h"

namespace jobscope {
namespace {

sigset_t EndingSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

void PrepareSignals() {
  signal(SIGPIPE, SIG_IGN);
  const sigset_t set = EndingSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

InterruptWatch::InterruptWatch(std::function<void()> first)
    : first_(std::move(first)), stop_fd_(eventfd(0, EFD_CLOEXEC)) {
  if (thread_.Start([this] { Watch(); })) return;
  const sigset_t set = EndingSignals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

InterruptWatch::~InterruptWatch() {
  const uint64_t one = 1;
  // Cannot fail: the counter is 0, the descriptor ours.
  const ssize_t ignored = write(stop_fd_, &one, sizeof one);
  static_cast<void>(ignored);
  thread_.Join();
  close(stop_fd_);
}

void InterruptWatch::Watch() {
  const sigset_t set = EndingSignals();
  const int signals = signalfd(-1, &set, SFD_CLOEXEC);
  bool again = false;
  pollfd polled[2] = {{stop_fd_, POLLIN, 0}, {signals, POLLIN, 0}};
  while (true) {
    if (poll(polled, 2, -1) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    if (polled[0].revents != 0) break;
    signalfd_siginfo info;
    if (polled[1].revents == 0 || read(signals, &info, sizeof info) != sizeof info) continue;
    if (again) {
      // Flushes and joins nothing: ends the process whatever hangs.
      constexpr char kText[] = "\ninterrupted\n";
      const ssize_t ignored = write(STDERR_FILENO, kText, sizeof kText - 1);
      static_cast<void>(ignored);
      _exit(kExitInterrupted);
    }
    again = true;
    first_();
  }
  if (signals >= 0) close(signals);
}

}  // namespace jobscope
