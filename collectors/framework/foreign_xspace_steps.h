// SPDX-License-Identifier: Apache-2.0
//
// Finds the steps of a training loop in JAX's own trace, where nobody marks them.
#ifndef COLLECTORS_FRAMEWORK_FOREIGN_XSPACE_STEPS_H_
#define COLLECTORS_FRAMEWORK_FOREIGN_XSPACE_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/framework/foreign_xspace_reader.h"

namespace jobscope::framework {

struct JitSteps {
  std::string call;  // "PjitFunction(step)"; empty: none found
  size_t line = 0;   // index into the plane's lines
  // Begins of the line's outermost events that hold the call, in ps after the line's own begin:
  // step i reaches from boundary i to boundary i + 1, and nothing on the line crosses one.
  std::vector<int64_t> boundaries_ps;
};

// The jitted call whose compiled program runs longest, of those with at least three outermost
// calls; where programs leave no trace of their own, the call that itself takes longest. Not the
// one that is called most: a loop calls small jitted helpers more often than its step. With `only`,
// no other call is looked at: the one that an earlier part of the same recording chose.
JitSteps FindJitSteps(const ForeignPlane& plane, std::string_view only);

// True if an event of the plane is marked as a step (`_r`).
bool HasStepMarks(const ForeignPlane& plane);

}  // namespace jobscope::framework

#endif  // COLLECTORS_FRAMEWORK_FOREIGN_XSPACE_STEPS_H_
