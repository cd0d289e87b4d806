// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_CLOSED_INPUT_H_
#define TESTS_CLOSED_INPUT_H_

#include <fcntl.h>
#include <unistd.h>

namespace jobscope {

// Closes standard input while it exists: the next descriptor to be opened gets its number.
class ClosedInput {
 public:
  ClosedInput() : input_(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)) {
    close(STDIN_FILENO);
  }
  ~ClosedInput() {
    if (input_ < 0) return;  // there was none
    (void)dup2(input_, STDIN_FILENO);
    close(input_);
  }
  ClosedInput(const ClosedInput&) = delete;
  ClosedInput& operator=(const ClosedInput&) = delete;

  // Returns whether something has taken the number.
  bool taken() const { return fcntl(STDIN_FILENO, F_GETFD) >= 0; }

 private:
  const int input_;
};

}  // namespace jobscope

#endif  // TESTS_CLOSED_INPUT_H_
