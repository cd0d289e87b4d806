// SPDX-License-Identifier: Apache-2.0
//
// What the OS gave the calling thread during a step: processor time, run-queue delay, involuntary
// context switches. Read at the ends of steps, and only while JOBSCOPE_BIT_STEP_USAGE is on; never
// by scopes. Costs 0.7 us, and 5 us more where the thread was switched since the last reading
// (docs/design/recorder.md).
#ifndef COLLECTORS_HOST_RECORDER_STEP_USAGE_H_
#define COLLECTORS_HOST_RECORDER_STEP_USAGE_H_

#include <stdint.h>

#include "collectors/host/recorder/thread_state.h"

namespace jobscope::recorder {

inline constexpr uint32_t kStepArguments = JOBSCOPE_STEP_INVOLUNTARY_SWITCHES + 1;

// A step begins: reads the usage unless that of an earlier end of a step in this epoch is known.
void BeginStepUsage(ThreadState* state, uint64_t begin_ticks);

// A step is about to end: reads the usage and writes arguments 1 to 3 of the step's record to
// `args`. Returns how many arguments the record has: kStepArguments, or 1 where nothing is known
// (another step ended within this one).
uint32_t EndStepUsage(ThreadState* state, uint64_t begin_ticks, jobscope_arg* args);

// The bit is about to be switched on: what threads read before is of no use any more, because steps
// may have ended since then unseen. Any thread.
void BeginUsageEpoch();

}  // namespace jobscope::recorder

#endif  // COLLECTORS_HOST_RECORDER_STEP_USAGE_H_
