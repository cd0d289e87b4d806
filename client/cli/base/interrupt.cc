// SPDX-License-Identifier: Apache-2.0
#include "client/cli/base/interrupt.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "client/cli/base/exit_code.h"
#include "common/clock/monotonic.h"

namespace jobscope {
namespace {

// Bounds the signals of one shutdown: a closed terminal's come within 1 ms, those of `timeout` and
// systemd in an instant.
constexpr absl::Duration kOneShutdown = absl::Seconds(1);

// Linux delivers a blocked signal to a signalfd even if it is ignored. SIGINT is included although
// it may be ignored: shells do that for every command that a script starts with `&`, and `kill
// -INT` must end those.
const sigset_t& EndingSignals() {
  static const sigset_t signals = [] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    struct sigaction hangup;
    const bool by_nohup = sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN;
    if (!by_nohup) sigaddset(&set, SIGHUP);
    return set;
  }();
  return signals;
}

}  // namespace

void PrepareSignals() {
  signal(SIGPIPE, SIG_IGN);
  pthread_sigmask(SIG_BLOCK, &EndingSignals(), nullptr);
}

void EndRequests::Add(int signal, absl::Time now) {
  if (!first_.has_value()) first_ = now;
  has_sigint_ = has_sigint_ || signal == SIGINT;
}

bool EndRequests::IsRepetition(int signal, absl::Time now) const {
  if (!first_.has_value()) return false;
  return (signal == SIGINT && has_sigint_) || now - *first_ >= kOneShutdown;
}

InterruptWatch::InterruptWatch(std::function<void()> first, std::function<void()> second)
    : first_(std::move(first)), second_(std::move(second)), stop_fd_(eventfd(0, EFD_CLOEXEC)) {
  if (thread_.Start([this] { Watch(); })) return;
  pthread_sigmask(SIG_UNBLOCK, &EndingSignals(), nullptr);
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
  const int signals = signalfd(-1, &EndingSignals(), SFD_CLOEXEC);
  EndRequests requests;
  pollfd polled[2] = {{stop_fd_, POLLIN, 0}, {signals, POLLIN, 0}};
  while (true) {
    if (poll(polled, 2, -1) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    if (polled[0].revents != 0) break;
    signalfd_siginfo info;
    if (polled[1].revents == 0 || read(signals, &info, sizeof info) != sizeof info) continue;
    const auto signal = static_cast<int>(info.ssi_signo);
    if (requests.IsRepetition(signal, SteadyNow())) {
      // Flushes and joins nothing: ends the process whatever hangs.
      constexpr char kText[] = "\ninterrupted\n";
      const ssize_t ignored = write(STDERR_FILENO, kText, sizeof kText - 1);
      static_cast<void>(ignored);
      if (second_) second_();
      _exit(kExitInterrupted);
    }
    if (requests.empty()) first_();
    requests.Add(signal, SteadyNow());  // afterwards: the time of `first_` does not count
  }
  if (signals >= 0) close(signals);
}

}  // namespace jobscope
