// SPDX-License-Identifier: Apache-2.0
//
// Makes this process's stderr a pipe that is full and that nobody reads.
#ifndef TESTS_FULL_STDERR_H_
#define TESTS_FULL_STDERR_H_

#include <fcntl.h>
#include <unistd.h>

#include <string>

namespace jobscope {

class FullStderr {
 public:
  FullStderr() : stderr_(dup(STDERR_FILENO)) {
    if (pipe2(ends_, O_CLOEXEC) != 0) return;
    (void)fcntl(ends_[1], F_SETPIPE_SZ, 4096);
    (void)dup2(ends_[1], STDERR_FILENO);
    // Opened again: O_NONBLOCK must not apply to stderr itself.
    const int filler = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    while (write(filler, "x", 1) == 1) {
    }
    close(filler);
  }
  // A write that hangs fails now.
  ~FullStderr() {
    (void)dup2(stderr_, STDERR_FILENO);
    for (const int fd : {ends_[0], ends_[1], stderr_}) close(fd);
  }
  FullStderr(const FullStderr&) = delete;
  FullStderr& operator=(const FullStderr&) = delete;

  // Reads what the pipe holds; blocks while it holds nothing.
  std::string Read() {
    std::string text(65536, '\0');
    const ssize_t count = read(ends_[0], text.data(), text.size());
    text.resize(count > 0 ? static_cast<size_t>(count) : 0);
    return text;
  }

 private:
  const int stderr_;
  int ends_[2] = {-1, -1};
};

}  // namespace jobscope

#endif  // TESTS_FULL_STDERR_H_
