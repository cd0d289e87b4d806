// SPDX-License-Identifier: Apache-2.0
#include "client/cli/base/exit.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "client/cli/base/exit_code.h"

namespace jobscope {

int UsageError(const absl::Status& status) {
  std::fprintf(stderr, "capture: %s\n", std::string(status.message()).c_str());
  return kExitUsage;
}

int PrintResult(const std::string& text, int exit_code) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return exit_code;
  const int error = errno;
  if (error == EPIPE) return exit_code;
  std::fprintf(stderr, "capture: cannot write the result to standard output: %s\n",
               std::strerror(error));
  return exit_code == kExitAll ? kExitOutput : exit_code;
}

void ExitAtOnce(CallThreads* threads, int exit_code) {
  // The reader of the table need not wait for what follows.
  std::fflush(nullptr);
  threads->AwaitUnused();
  _exit(exit_code);
}

}  // namespace jobscope
