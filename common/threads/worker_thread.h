// SPDX-License-Identifier: Apache-2.0
//
// Threads of ours inside somebody else's process.
#ifndef COMMON_THREADS_WORKER_THREAD_H_
#define COMMON_THREADS_WORKER_THREAD_H_

#include <cstddef>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace jobscope {

// Runs `body` on a new detached thread called `name` (at most 15 bytes). The thread inherits
// nothing from its creator that the application has chosen for itself:
//   signals     all are blocked, except those that a fault of its own raises: a signal meant for
//               the application never lands on a thread of ours
//   processors  those of the process (process_cpus.h), not the one that its creator is bound to
//   scheduling  SCHED_OTHER, where the creator runs under a real-time policy
//   stack       8 MiB, whatever `ulimit -s` says; not touched, it takes address space only
// Threads that `body` creates inherit all but the stack. An exception of `body` (out of memory) is
// logged and ends the thread. RESOURCE_EXHAUSTED when the system gives no thread; `body` has then
// not run.
absl::Status StartWorkerThread(const char* name, absl::AnyInvocable<void()> body);

// Of a thread with the default attributes, or of one of ours, whichever is larger.
size_t ThreadStackBytes();

// How many threads this process can create now, at most `wanted`. Where a limit may be near,
// creates that many, lets each take a heap of its own as any thread does that allocates, and ends
// them all: that takes about 50 us for each. The application can be refused a thread because of
// this only between the moment when the limit is reached and the end of the call. Thread-safe.
size_t FreeThreads(size_t wanted);

}  // namespace jobscope

#endif  // COMMON_THREADS_WORKER_THREAD_H_
