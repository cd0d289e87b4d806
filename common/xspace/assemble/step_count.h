// SPDX-License-Identifier: Apache-2.0
//
// Counts the training steps of a trace whose session ended before it counted them.
#ifndef COMMON_XSPACE_ASSEMBLE_STEP_COUNT_H_
#define COMMON_XSPACE_ASSEMBLE_STEP_COUNT_H_

#include <cstdint>

#include "common/xspace/assemble/item_index.h"

namespace jobscope::xspace {

// Counts the whole training steps in the items: events that carry `_r` (clipped ones do not). Reads
// all events of planes with that stat.
uint64_t CountSteps(const ItemIndex& index);

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_ASSEMBLE_STEP_COUNT_H_
