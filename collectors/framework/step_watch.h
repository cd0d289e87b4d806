// SPDX-License-Identifier: Apache-2.0
#ifndef COLLECTORS_FRAMEWORK_STEP_WATCH_H_
#define COLLECTORS_FRAMEWORK_STEP_WATCH_H_

namespace jobscope::framework {

// Has the process's Python tell of the steps of the frameworks that it imports (PyTorch, Keras).
// The server may be there before the interpreter is: looks for it, on the calling thread, a few
// times within half a minute, ever more seldom. Returns when it was found, or then. Takes the GIL:
// for a thread of its own. Not in a forked child.
void WatchSteps();

}  // namespace jobscope::framework

#endif  // COLLECTORS_FRAMEWORK_STEP_WATCH_H_
