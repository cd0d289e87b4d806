// SPDX-License-Identifier: Apache-2.0
//
// Blocks of the report's timelines, and the rows in which they stand.
#ifndef ANALYSIS_STEPS_TIMELINE_BLOCK_H_
#define ANALYSIS_STEPS_TIMELINE_BLOCK_H_

#include <cstdint>
#include <vector>

#include "analysis/steps/intervals.h"

namespace jobscope::analysis {

// TimelineBlock::what of the step itself; other values are indices of StepClass.
inline constexpr uint32_t kStepItself = 255;

// One event, or a run of short ones, cut at the borders of its window.
struct TimelineBlock {
  Interval span;
  uint32_t line = 0;  // index of the thread or stream
  uint32_t name = 0;  // index of the name; of a run, that of its first event
  uint32_t what = 0;
  uint32_t events = 1;
};

// Returns a row for each block, such that no two blocks of one line overlap in a row, and nested
// blocks are in lower rows. `blocks` must be sorted by line, begin and length, longest first. Pure.
std::vector<uint32_t> RowsOf(const std::vector<TimelineBlock>& blocks);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_STEPS_TIMELINE_BLOCK_H_
