// SPDX-License-Identifier: Apache-2.0
#ifndef COLLECTORS_FRAMEWORK_STEP_WATCH_H_
#define COLLECTORS_FRAMEWORK_STEP_WATCH_H_

namespace jobscope::framework {

// Makes the process's Python report the steps of the frameworks that it imports (PyTorch, Keras).
// The server may start before the interpreter: checks for it on the calling thread, several times
// within half a minute, at increasing intervals, and returns when it was found or the time is over.
// Acquires the GIL: call it on a thread of its own. Not in a forked child.
void WatchSteps();

}  // namespace jobscope::framework

#endif  // COLLECTORS_FRAMEWORK_STEP_WATCH_H_
