// SPDX-License-Identifier: Apache-2.0
//
// Runs the thread that loads libjobscope.so and starts the server, once, while the program
// continues. Uses only the C library.
#ifndef SERVER_ATTACH_START_THREAD_H_
#define SERVER_ATTACH_START_THREAD_H_

#include <limits.h>
#include <sys/types.h>

#include "server/attach/environment.h"
#include "server/attach/listen_text.h"

namespace jobscope::attach {

// Everything the thread needs: it does not read the environment, which the program may change.
struct StartPlan {
  pid_t pid;
  char address[kMaxListenBytes + 1];
  int local_rank;
  Above above;
  int delay_ms;
  LogLevel log_level;
  char library[PATH_MAX];  // libjobscope.so beside us
};

// Starts the thread, which keeps a pointer to `plan`. All signals are blocked on it, except those
// raised by its own faults. The thread first waits plan.delay_ms, so that short-lived programs
// never load anything, and ends when the server runs or has refused to start. Registers a fork
// handler: a fork waits until a load or start in progress has completed, for at most 1 s.
// Returns false if no thread can be created.
bool StartServerLater(const StartPlan* plan);

// Ends the thread's wait. Async-signal-safe. Does nothing if there is no thread.
void StartServerNow();

// Returns libjobscope.so: the one that the process has loaded, else the one beside us. Returns null
// if there is none; dlerror() has the reason. May be called on any thread, also under the loader's
// lock: waits for no lock of ours.
void* LoadServerLibrary(const StartPlan& plan);

// Writes one line to standard error, bypassing stdio, in the format of common/log/log.h.
void Say(LogLevel threshold, LogLevel level, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

}  // namespace jobscope::attach

#endif  // SERVER_ATTACH_START_THREAD_H_
