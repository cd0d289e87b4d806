// SPDX-License-Identifier: Apache-2.0
//
// What the process still delivers while it exits.
#ifndef SERVER_PROCESS_EXIT_DELIVERY_H_
#define SERVER_PROCESS_EXIT_DELIVERY_H_

#include "absl/time/time.h"

namespace jobscope {

// Runs `deliver` when the process exits by exit() or by return from main, once, however often it is
// registered; not in a forked child, and not in a process that is killed. All that are registered
// share one grace period of 1 s, whose end `deliver` gets; it must not wait for a lock that the
// thread which called exit() may hold. Thread-safe.
void DeliverAtExit(void (*deliver)(absl::Time deadline));

}  // namespace jobscope

#endif  // SERVER_PROCESS_EXIT_DELIVERY_H_
