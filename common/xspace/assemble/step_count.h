// SPDX-License-Identifier: Apache-2.0
//
// The steps of a trace whose session did not live to count them.
#ifndef COMMON_XSPACE_ASSEMBLE_STEP_COUNT_H_
#define COMMON_XSPACE_ASSEMBLE_STEP_COUNT_H_

#include <cstdint>

#include "common/xspace/assemble/item_index.h"

namespace jobscope::xspace {

// Whole steps in the items: events that carry `_r` (one that was clipped does not). Reads all
// events of planes that know such a stat.
uint64_t CountSteps(const ItemIndex& index);

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_ASSEMBLE_STEP_COUNT_H_
