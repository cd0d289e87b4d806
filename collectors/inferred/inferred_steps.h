// SPDX-License-Identifier: Apache-2.0
//
// Records steps of programs that do not mark their steps: a hook that sees one end (of an
// optimizer, of a training loop) reports it here.
#ifndef COLLECTORS_INFERRED_INFERRED_STEPS_H_
#define COLLECTORS_INFERRED_INFERRED_STEPS_H_

#include <cstdint>

#include "jobscope/detail/writer_abi.h"

namespace jobscope::framework {

// Returns whether steps are inferred at all: JOBSCOPE_INFER_STEPS=0 disables it.
bool InfersSteps();

// Ends a step of `source_id` on the calling thread now and begins its next one. `source_id` is any
// number that distinguishes the training loops of the process, such as the address of an optimizer.
// `name` is the steps' name in the trace ("optimizer step"); it must be a literal.
//
// `part` distinguishes what a source does in several calls per iteration, such as the parameter
// group that an optimizer was called for; 0: the source has no parts. The step ends with the part
// that was seen first; other parts belong to the same step.
//
// Only one source of a process counts: the first one, until it has been silent while another one
// ended 16 steps. Nothing is recorded while no server or capture wants steps, in a forked child,
// and once the program has marked a step itself. Callable on any thread, with or without the GIL;
// takes about 100 ns and waits only for other threads within this function.
void NoteStepEnd(uint64_t source_id, const char* name, uint64_t part = 0);

// Discards the begin of the source's running step, so that this step is not recorded: a part of it
// was not watched. Callable on any thread.
void ForgetStepBegin(uint64_t source_id);

// Sets the process's recorder. Called once by the composition root; nothing is recorded before.
void RecordInferredSteps(const struct jobscope_trace_writer_table* writer);

}  // namespace jobscope::framework

#endif  // COLLECTORS_INFERRED_INFERRED_STEPS_H_
