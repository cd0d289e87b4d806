// SPDX-License-Identifier: Apache-2.0
//
// Delivers captures while the process exits.
#ifndef SERVER_PROCESS_EXIT_DELIVERY_H_
#define SERVER_PROCESS_EXIT_DELIVERY_H_

#include "absl/time/time.h"

namespace jobscope {

using ExitFunction = void (*)(absl::Time deadline);

// Registers `deliver`, which runs once when the process exits by exit() or by return from main,
// however often it is registered; not in a forked child, and not in a process that is killed. All
// registered functions share one grace period of 1 s, whose end, of SteadyNow, `deliver` receives;
// each may need up to 0.5 s more to clean up. `clean_up`, if not null, runs after all of them, with
// the same deadline, and may need up to 0.5 s. Neither may wait for a lock that the thread
// which called exit() may hold. An exception of one (out of memory) is logged. Thread-safe.
void DeliverAtExit(ExitFunction deliver, ExitFunction clean_up = nullptr);

// Lets the registered functions run before the exit handlers and static destructors that are
// registered by now: those of a library that captures call and that was loaded after DeliverAtExit.
// Each call registers an exit handler: call it a bounded number of times. Thread-safe.
void DeliverBeforeOthersExit();

}  // namespace jobscope

#endif  // SERVER_PROCESS_EXIT_DELIVERY_H_
