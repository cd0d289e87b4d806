// SPDX-License-Identifier: Apache-2.0
//
// Finds the steps of a training loop in a framework's own trace, where nobody marks them.
#ifndef COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_STEPS_H_
#define COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/xspace_import/foreign_xspace_reader.h"

namespace jobscope::framework {

// Calls that a training loop may be made of: events whose name begins with `prefix` and that have
// the stat `stat`. Empty: any.
struct StepCalls {
  std::string_view prefix;
  std::string_view stat;
};
// As jaxlib names the call of a jitted function, whatever becomes of it.
inline constexpr StepCalls kJaxCalls = {"PjitFunction(", ""};
// What TensorFlow's Python says of the call of a tf.function, under the function's own name.
inline constexpr StepCalls kTensorflowCalls = {"", "tf_function_call"};

struct CallSteps {
  std::string call;  // the event's name, "PjitFunction(step)"; empty: none found
  size_t line = 0;   // index into the plane's lines
  // Begins of the line's outermost events that hold the call, in ps after the line's own begin:
  // step i reaches from boundary i to boundary i + 1, and nothing on the line crosses one.
  std::vector<int64_t> boundaries_ps;
};

// The call whose compiled program (of JAX's) runs longest, of those with at least three outermost
// calls; where programs leave no trace of their own, the call that itself takes longest. Not the
// one that is called most: a loop calls small helpers more often than its step. With `only`, no
// other call is looked at: the one that an earlier part of the same recording chose.
CallSteps FindCallSteps(const ForeignPlane& plane, const StepCalls& calls, std::string_view only);

// True if the program has marked an event of the plane as a step: by `_r`, which TensorFlow also
// gives to each run of a function (then with `_pt`, as a producer).
bool HasStepMarks(const ForeignPlane& plane);

}  // namespace jobscope::framework

#endif  // COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_STEPS_H_
