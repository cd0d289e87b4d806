// SPDX-License-Identifier: Apache-2.0
//
// Handles Ctrl-C and the signals of a shutdown: once to stop and keep the data, repeated to end at
// once.
#ifndef CLIENT_CLI_BASE_INTERRUPT_H_
#define CLIENT_CLI_BASE_INTERRUPT_H_

#include <functional>
#include <optional>

#include "absl/time/time.h"
#include "common/threads/thread_group.h"

namespace jobscope {

// Blocks SIGINT, SIGTERM and SIGHUP in the calling thread and in all that it starts from now on:
// call it before the first thread starts (gRPC's included). A SIGHUP that is ignored (nohup) stays
// ignored. Ignores SIGPIPE from now on: a reader that closes our output must not end a capture.
void PrepareSignals();

// Decides which signal repeats the request to end. One shutdown sends several signals: bash and
// then the kernel send SIGHUP when a terminal is closed, `timeout` sends SIGTERM to the process and
// to its group, systemd sends SIGTERM and SIGHUP. Not thread-safe.
class EndRequests {
 public:
  void Add(int signal, absl::Time now);
  // Returns whether `signal` is a second SIGINT, or arrives 1 s or more after the first signal that
  // was added. `now` is of SteadyNow.
  bool IsRepetition(int signal, absl::Time now) const;
  bool empty() const { return !first_.has_value(); }

 private:
  std::optional<absl::Time> first_;
  bool has_sigint_ = false;
};

// Waits for those signals on a thread of its own, for its lifetime. The first signal runs `first`
// on that thread; a repetition runs `second`, if any, and ends the process with exit code 130. If
// no thread can be started, the signals end the process as they do by default. One instance at a
// time.
class InterruptWatch {
 public:
  explicit InterruptWatch(std::function<void()> first, std::function<void()> second = nullptr);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

 private:
  void Watch();

  const std::function<void()> first_;
  const std::function<void()> second_;
  const int stop_fd_;  // eventfd
  ThreadGroup thread_;
};

}  // namespace jobscope

#endif  // CLIENT_CLI_BASE_INTERRUPT_H_
