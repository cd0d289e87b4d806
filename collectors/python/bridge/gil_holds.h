// SPDX-License-Identifier: Apache-2.0
//
// Measures how long jobscope holds the GIL.
#ifndef COLLECTORS_PYTHON_BRIDGE_GIL_HOLDS_H_
#define COLLECTORS_PYTHON_BRIDGE_GIL_HOLDS_H_

#include <cstdint>
#include <string>

namespace jobscope::python {

// What for.
enum class GilUse {
  kLookUp,   // what the program has imported
  kScript,   // Python code of ours: gives the lock up in between, so that this is an upper bound
  kArm,      // of the tracer
  kInstall,  // hooks, and the stacks at the begin
  kRemove,   // hooks, and the stacks at the end
  kSample,
  kUses,
};

// Measures from its making on.
class GilHold {
 public:
  explicit GilHold(GilUse use);
  // The time since then, in ns; kept if it is the use's longest. The lock is still held.
  uint64_t End() const;

 private:
  const GilUse use_;
  const uint64_t wall_ns_;
  const uint64_t cpu_ns_;
};

// "looking up 0.01 ms (0.01 of CPU time), sampling 0.05 ms (0.04), …": the longest of each use
// since the process began, or empty. The two times differ where the thread was not let run, or, in
// a script, had given the lock up. Any thread.
std::string LongestGilHolds();

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_BRIDGE_GIL_HOLDS_H_
