// SPDX-License-Identifier: Apache-2.0
//
// Preloaded into `jobscope run`: the process that stays beside the program, which is forked by one
// that ends, does not go on before a SIGINT has come for it. On a busy machine a new process may
// wait for a processor as long.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

enum { kPolls = 3000 };  // of 10 ms: a test without a signal must end

static int depth = 0;

__attribute__((visibility("default"))) pid_t fork(void) {
  pid_t (*const real_fork)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
  const pid_t child = real_fork();
  if (child != 0 || ++depth != 2) return child;
  sigset_t pending;
  for (int i = 0; i < kPolls && sigpending(&pending) == 0 && !sigismember(&pending, SIGINT); ++i) {
    usleep(10000);
  }
  return child;
}
