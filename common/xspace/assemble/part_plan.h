// SPDX-License-Identifier: Apache-2.0
//
// Decides where to cut a trace that is too large for one file.
#ifndef COMMON_XSPACE_ASSEMBLE_PART_PLAN_H_
#define COMMON_XSPACE_ASSEMBLE_PART_PLAN_H_

#include <cstdint>
#include <vector>

#include "common/xspace/assemble/item_index.h"
#include "common/xspace/assemble/read_meter.h"

namespace jobscope::xspace {

// Returns increasing times at which to cut. At most `budget_bytes` of encoded events start between
// two of them, and at most `first_budget_bytes` before the first. Events with the same start are
// never separated, so more may start at one picosecond. Empty: no cut is needed. Memory: histograms
// of a few KiB.
std::vector<int64_t> PlanCuts(const std::vector<IndexedPlane>& planes, uint64_t first_budget_bytes,
                              uint64_t budget_bytes, ReadMeter* meter = nullptr);

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_ASSEMBLE_PART_PLAN_H_
