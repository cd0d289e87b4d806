// SPDX-License-Identifier: Apache-2.0
//
// Starts threads of ours in the host process.
#ifndef COMMON_THREADS_WORKER_THREAD_H_
#define COMMON_THREADS_WORKER_THREAD_H_

#include <sys/types.h>

#include <cstddef>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace jobscope {

// Runs `body` on a new detached thread called `name` (at most 15 bytes). The thread inherits none
// of the settings that the application chose for the creating thread:
//   signals     all blocked, except those raised by its own faults: a signal meant for the
//               application never reaches one of our threads
//   processors  those of the process (process_cpus.h), not those that its creator is bound to
//   scheduling  SCHED_OTHER, also if the creator runs under a real-time policy
//   arithmetic  no floating-point exception raises a signal; results are rounded to the nearest
//   heap        its own (64 MiB of address space), from before `body` runs
//   stack       8 MiB, whatever `ulimit -s` says; untouched, it takes only address space
// Threads that `body` creates inherit all but the stack. An exception of `body` (out of memory) is
// logged and ends the thread. `tid`, if not null, receives the thread's id, although the thread may
// not have run yet; 0 if it has ended. RESOURCE_EXHAUSTED, with the reason of a process limit: no
// thread could be created, and `body` has not run.
absl::Status StartWorkerThread(const char* name, absl::AnyInvocable<void()> body,
                               pid_t* tid = nullptr);

// Returns the stack size of a thread with default attributes, or of one of ours, whichever is
// larger.
size_t ThreadStackBytes();

// Returns how many threads this process can create now, at most `wanted`. If a limit may be near,
// it creates that many and ends them all; this takes about 50 us per thread. With `reserve_heaps`,
// each reserves a heap (64 MiB of address space), which glibc keeps for the next threads. Only from
// the moment when the limit is reached until the call returns can the application be refused a
// thread because of it. Thread-safe.
size_t FreeThreads(size_t wanted, bool reserve_heaps = false);

}  // namespace jobscope

#endif  // COMMON_THREADS_WORKER_THREAD_H_
