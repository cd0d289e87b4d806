// SPDX-License-Identifier: Apache-2.0
//
// The thread that loads libjobscope.so and starts the server, once, while the program goes on. C
// library only.
#ifndef SERVER_ATTACH_START_THREAD_H_
#define SERVER_ATTACH_START_THREAD_H_

#include <limits.h>
#include <sys/types.h>

#include "server/attach/environment.h"
#include "server/attach/listen_text.h"

namespace jobscope::attach {

// All that the thread must know: the environment is not read again, because the program may change
// it.
struct StartPlan {
  pid_t pid;
  char address[kMaxListenBytes + 1];
  int local_rank;
  Above above;
  int delay_ms;
  LogLevel log_level;
  char library[PATH_MAX];  // libjobscope.so beside us
};

// Starts the thread; it keeps `plan`, which must stay where it is. All signals are blocked on it,
// but for those that a fault of its own raises. It waits plan.delay_ms first, so that programs that
// run for a moment never load anything, and ends when the server runs or has refused. Registers a
// fork handler: a fork waits until a load or a start that is under way has come through, but at
// most 100 ms. False: no thread.
bool StartServerLater(const StartPlan* plan);

// Ends the thread's wait. Async-signal-safe; does nothing where there is no thread.
void StartServerNow();

// libjobscope.so, the one that the process has if it has one, else the one beside us; null, and
// dlerror() says why. May be called from any thread, also under the loader's lock: waits for none
// of ours.
void* LoadServerLibrary(const StartPlan& plan);

// One line on standard error, past stdio, in the format of common/log/log.h.
void Say(LogLevel threshold, LogLevel level, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

}  // namespace jobscope::attach

#endif  // SERVER_ATTACH_START_THREAD_H_
