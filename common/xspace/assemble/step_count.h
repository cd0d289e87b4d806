// SPDX-License-Identifier: Apache-2.0
//
// Counts the training steps of a trace whose session ended before it counted them.
#ifndef COMMON_XSPACE_ASSEMBLE_STEP_COUNT_H_
#define COMMON_XSPACE_ASSEMBLE_STEP_COUNT_H_

#include <cstdint>

#include "common/xspace/assemble/item_index.h"
#include "common/xspace/assemble/read_meter.h"

namespace jobscope::xspace {

// Counts the whole training steps in the items: events that carry `_r` (clipped ones do not). Reads
// all events of planes with that stat; reports them to the meter, and all for release at the end.
uint64_t CountSteps(const ItemIndex& index, ReadMeter* meter = nullptr);

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_ASSEMBLE_STEP_COUNT_H_
