// SPDX-License-Identifier: Apache-2.0
//
// Measures how long jobscope holds the GIL.
#ifndef COLLECTORS_PYTHON_BRIDGE_GIL_HOLDS_H_
#define COLLECTORS_PYTHON_BRIDGE_GIL_HOLDS_H_

#include <cstdint>
#include <string>

namespace jobscope::python {

// Purposes for which the GIL is held.
enum class GilUse {
  kLookUp,   // find out what the program has imported
  kScript,   // our own Python code; it releases the GIL in between, so this is an upper bound
  kArm,      // prepare the tracer
  kInstall,  // install hooks, and read the stacks at the begin
  kRemove,   // remove hooks, and read the stacks at the end
  kSample,
  kUses,
};

// Measures a hold, from construction on.
class GilHold {
 public:
  explicit GilHold(GilUse use);
  // Returns the time since construction in ns; keeps it if it is the purpose's longest. Requires
  // the GIL.
  uint64_t End() const;

 private:
  const GilUse use_;
  const uint64_t wall_ns_;
  const uint64_t cpu_ns_;
};

// Returns "looking up 0.01 ms (0.01 of CPU time), sampling 0.05 ms (0.04), …": the longest hold of
// each purpose since the process began, or empty. The two times differ if the thread was
// descheduled or, in a script, had released the GIL. Any thread.
std::string LongestGilHolds();

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_BRIDGE_GIL_HOLDS_H_
