// SPDX-License-Identifier: Apache-2.0
//
// Steps of programs that do not mark their steps: somebody who sees one end (a hook of an
// optimizer, a callback of a training loop) notes that here.
#ifndef COLLECTORS_INFERRED_INFERRED_STEPS_H_
#define COLLECTORS_INFERRED_INFERRED_STEPS_H_

#include <cstdint>

#include "jobscope/detail/writer_abi.h"

namespace jobscope::framework {

// A step of `source_id` (any number that tells one loop of the process from another, such as the
// address of an optimizer) ended now, on the calling thread, and its next one begins. `name` is
// what the steps are called in the trace ("optimizer step"); it must be a literal.
//
// `part` tells apart what a source does in several calls per iteration, such as the parameter group
// that an optimizer was called for; 0: the source has no parts. The step ends with the part that
// was seen first; the others are of the same step.
//
// One source of a process counts: the first one, until it has been silent while another one ended
// 16 steps. Nothing is recorded while no server or capture wants steps, in a forked child, and once
// the program has marked a step itself. Any thread, with or without Python's GIL; about 100 ns, and
// never waits for anything but another thread within this function.
void NoteStepEnd(uint64_t source_id, const char* name, uint64_t part = 0);

// The source was not watched until now: what runs is not to be taken for a step. For threads of
// ours.
void ForgetStepBegin(uint64_t source_id);

// Called once by the composition root, with the process's recorder. Nothing is noted before.
void RecordInferredSteps(const struct jobscope_trace_writer_table* writer);

}  // namespace jobscope::framework

#endif  // COLLECTORS_INFERRED_INFERRED_STEPS_H_
