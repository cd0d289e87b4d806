// SPDX-License-Identifier: Apache-2.0
//
// Reads what the OS gave the calling thread during a step: processor time, run-queue delay,
// involuntary context switches. Only at the ends of steps and only while JOBSCOPE_BIT_STEP_USAGE is
// set; never in scopes. Costs below 1 us, and several more if the thread was switched since the
// last reading (docs/benchmarks.md, Collectors).
#ifndef COLLECTORS_HOST_RECORDER_STEP_USAGE_H_
#define COLLECTORS_HOST_RECORDER_STEP_USAGE_H_

#include <stdint.h>

#include "collectors/host/recorder/thread_state.h"

namespace jobscope::recorder {

inline constexpr uint32_t kStepArguments = JOBSCOPE_STEP_INVOLUNTARY_SWITCHES + 1;

// Begins a step: reads the usage, unless an earlier end of a step in this epoch has.
void BeginStepUsage(ThreadState* state, uint64_t begin_ticks);

// Ends a step: reads the usage and writes arguments 1 to 3 of the step's record to `args`. Returns
// how many arguments the record has: kStepArguments, or 1 if the usage is unknown (another step
// ended within this one).
uint32_t EndStepUsage(ThreadState* state, uint64_t begin_ticks, jobscope_arg* args);

// Invalidates earlier readings before the bit is set, because steps may have ended unseen since
// then. Any thread.
void BeginUsageEpoch();

}  // namespace jobscope::recorder

#endif  // COLLECTORS_HOST_RECORDER_STEP_USAGE_H_
