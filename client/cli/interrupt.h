// SPDX-License-Identifier: Apache-2.0
//
// Handles Ctrl-C: once to stop and keep the data, twice to end at once.
#ifndef CLIENT_CLI_INTERRUPT_H_
#define CLIENT_CLI_INTERRUPT_H_

#include <functional>

#include "common/threads/thread_group.h"

namespace jobscope {

// Blocks SIGINT, SIGTERM and SIGHUP in the calling thread and in all that it starts from now on:
// call it before the first thread starts (gRPC's included). A SIGHUP that is ignored (nohup) stays
// ignored. Ignores SIGPIPE from now on: a reader that closes our output must not end a capture.
void PrepareSignals();

// Waits for those signals on a thread of its own, for its lifetime. The first signal runs `first`
// on that thread; the next one runs `second`, if any, and ends the process with exit code 130. If
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

#endif  // CLIENT_CLI_INTERRUPT_H_
