// SPDX-License-Identifier: Apache-2.0
//
// Threads of ours inside somebody else's process.
#ifndef SERVER_WORKER_THREAD_H_
#define SERVER_WORKER_THREAD_H_

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace jobscope {

// Runs `body` on a new detached thread called `name` (at most 15 bytes). All signals are blocked
// there, except those that a fault of its own raises: a signal meant for the application never
// lands on a thread of ours. RESOURCE_EXHAUSTED when the system gives no thread; `body` has then
// not run.
absl::Status StartWorkerThread(const char* name, absl::AnyInvocable<void()> body);

}  // namespace jobscope

#endif  // SERVER_WORKER_THREAD_H_
