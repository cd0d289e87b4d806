// SPDX-License-Identifier: Apache-2.0
//
// Writes to stderr without blocking the caller.
#ifndef CLIENT_TERMINAL_STDERR_WRITER_H_
#define CLIENT_TERMINAL_STDERR_WRITER_H_

#include <memory>
#include <string>

#include "absl/time/time.h"

namespace jobscope {

// Writes on a thread of its own. A stopped terminal (Ctrl-S) or a pipe without a reader blocks only
// a thread of this object. Ignores errors: the user may have closed the terminal. Not thread-safe.
class StderrWriter {
 public:
  StderrWriter();
  // Does not block. Abandons a thread that hangs in a write: it uses nothing of this.
  ~StderrWriter();
  StderrWriter(const StderrWriter&) = delete;
  StderrWriter& operator=(const StderrWriter&) = delete;

  // Never blocks. If too much is queued, the newest text is dropped.
  void Write(std::string text);
  // Likewise, but replaces a queued redraw.
  void Redraw(std::string text);
  // Blocks until all is written, for at most `timeout`.
  void Flush(absl::Duration timeout);

 private:
  struct State;  // shared with the thread
  void Post(std::string text, bool redraws);

  const std::shared_ptr<State> state_;
  bool started_ = false;
};

}  // namespace jobscope

#endif  // CLIENT_TERMINAL_STDERR_WRITER_H_
