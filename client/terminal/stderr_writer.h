// SPDX-License-Identifier: Apache-2.0
//
// Writes to stderr without waiting for it.
#ifndef CLIENT_TERMINAL_STDERR_WRITER_H_
#define CLIENT_TERMINAL_STDERR_WRITER_H_

#include <memory>
#include <string>

#include "absl/time/time.h"

namespace jobscope {

// A terminal that is stopped (Ctrl-S) and a pipe that nobody reads hold up a thread of this object,
// and nobody else. Errors are ignored: the user may have closed the terminal. Not thread-safe.
class StderrWriter {
 public:
  StderrWriter();
  // Does not wait. A thread that hangs in a write is left to itself: it touches nothing of this.
  ~StderrWriter();
  StderrWriter(const StderrWriter&) = delete;
  StderrWriter& operator=(const StderrWriter&) = delete;

  // Never blocks. Of what waits to be written the newest is left out where it is too much.
  void Write(std::string text);
  // Likewise; what was redrawn before and waits still is left out instead.
  void Redraw(std::string text);
  // Waits until all is written, for at most `timeout`.
  void Flush(absl::Duration timeout);

 private:
  struct State;  // shared with the thread
  void Post(std::string text, bool redraws);

  const std::shared_ptr<State> state_;
  bool started_ = false;
};

}  // namespace jobscope

#endif  // CLIENT_TERMINAL_STDERR_WRITER_H_
