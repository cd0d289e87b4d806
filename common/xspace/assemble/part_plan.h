// SPDX-License-Identifier: Apache-2.0
//
// Where a trace that is too large for one file is cut.
#ifndef COMMON_XSPACE_ASSEMBLE_PART_PLAN_H_
#define COMMON_XSPACE_ASSEMBLE_PART_PLAN_H_

#include <cstdint>
#include <vector>

#include "common/xspace/assemble/item_index.h"
#include "common/xspace/assemble/read_meter.h"

namespace jobscope::xspace {

// Times at which to cut, rising, so that between two of them start at most `budget_bytes` of
// encoded events, and before the first at most `first_budget_bytes`. Events of one start are never
// parted, so more than that may start at one picosecond. Empty: no cut is needed. Memory:
// histograms of a few KiB.
std::vector<int64_t> PlanCuts(const std::vector<IndexedPlane>& planes, uint64_t first_budget_bytes,
                              uint64_t budget_bytes, ReadMeter* meter = nullptr);

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_ASSEMBLE_PART_PLAN_H_
