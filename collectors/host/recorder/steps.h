// SPDX-License-Identifier: Apache-2.0
//
// Tracks the training steps of the process: their source, the newest ones, and an armed trigger
// that opens and closes a capture at chosen steps.
#ifndef COLLECTORS_HOST_RECORDER_STEPS_H_
#define COLLECTORS_HOST_RECORDER_STEPS_H_

#include <stddef.h>
#include <stdint.h>

#include "collectors/host/recorder/reader_abi.h"

namespace jobscope::recorder {

inline constexpr uint32_t kRecentSteps = 256;

// Set in the id of a site whose steps the program does not mark itself.
inline constexpr uint32_t kInferredSource = 1u << 31;

// Returns whether `site` is the source of steps: the first one that records; an inferred source is
// replaced by any other.
bool IsSource(uint32_t site);

// Called by the thread that begins or ends a step of `site`. Does nothing for sites other than the
// source.
void OnStepBegin(uint32_t site, int64_t number, uint64_t begin_ticks);
void OnStepEnd(uint32_t site, int64_t number, uint64_t begin_ticks, uint64_t end_ticks);
// Like OnStepBegin, but if step `number` is the newest and still running, restarts it: so a capture
// of a number of steps gets that many.
void OnStepBeginAgain(uint32_t site, int64_t number, uint64_t begin_ticks);

void ArmTrigger(int64_t first, int64_t last, uint32_t bits);
void ArmTriggerByOrdinal(uint64_t first, uint64_t last, uint32_t bits);
void DisarmTrigger();
void GetTrigger(jobscope_trigger_info* out);
void TriggerOrdinals(uint64_t* first, uint64_t* last);

size_t RecentSteps(jobscope_step_info* out, size_t capacity);
uint64_t StepCount();
uint64_t LastStepFall();
uint32_t StepSource();

}  // namespace jobscope::recorder

#endif  // COLLECTORS_HOST_RECORDER_STEPS_H_
