// SPDX-License-Identifier: Apache-2.0
//
// Infers the steps of a training loop from a framework's own trace if nothing marks them.
#ifndef COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_STEPS_H_
#define COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/xspace_import/foreign_xspace_reader.h"

namespace jobscope::framework {

// Selects calls that may make up a training loop: events whose name begins with `prefix` and that
// have the stat `stat`. Empty: any.
struct StepCalls {
  std::string_view prefix;
  std::string_view stat;
};
// jaxlib's name for the call of a jitted function.
inline constexpr StepCalls kJaxCalls = {"PjitFunction(", ""};
// TensorFlow's event for the call of a tf.function, named after the function.
inline constexpr StepCalls kTensorflowCalls = {"", "tf_function_call"};

struct CallSteps {
  std::string call;  // the event's name, "PjitFunction(step)"; empty: none found
  size_t line = 0;   // index into the plane's lines
  // Begins of the line's outermost events that contain the call, in ps after the line's begin: step
  // i extends from boundary i to boundary i + 1, and nothing on the line crosses a boundary.
  std::vector<int64_t> boundaries_ps;
};

// Chooses the call whose compiled program (JAX) runs longest, among those with at least three
// outermost calls; if programs leave no events, the call that itself takes longest. Not the most
// frequent one: a loop calls small helpers more often than its step. With `only`, considers only
// that call, chosen by an earlier part of the same recording.
CallSteps FindCallSteps(const ForeignPlane& plane, const StepCalls& calls, std::string_view only);

// Returns true if the program has marked an event of the plane as a step. The format's stats:
// `_r` (root) marks an event as the root of its thread's work, as a step is; `_pt` (producer type)
// marks one that starts work on another thread. TensorFlow also gives `_r` to each run of a
// function, then together with `_pt`: such events are not steps.
bool HasStepMarks(const ForeignPlane& plane);

}  // namespace jobscope::framework

#endif  // COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_STEPS_H_
