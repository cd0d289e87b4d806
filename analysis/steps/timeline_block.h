// SPDX-License-Identifier: Apache-2.0
//
// Blocks of the report's timelines, and the rows in which they stand.
#ifndef ANALYSIS_STEPS_TIMELINE_BLOCK_H_
#define ANALYSIS_STEPS_TIMELINE_BLOCK_H_

#include <cstdint>
#include <vector>

#include "analysis/steps/intervals.h"

namespace jobscope::analysis {

// What a block stands for: a StepClass, or the step itself.
inline constexpr uint32_t kStepItself = 255;

// One event, or a run of short ones, cut at the borders of its window.
struct TimelineBlock {
  Interval span;
  uint32_t line = 0;  // a thread or a stream
  uint32_t name = 0;  // of a run that of the first event
  uint32_t what = 0;
  uint32_t events = 1;
};

// Rows in which no two blocks of one line overlap; nested blocks stand below what they are nested
// in. `blocks` must be sorted by line, begin and length, longest first. Same size. Pure.
std::vector<uint32_t> RowsOf(const std::vector<TimelineBlock>& blocks);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_STEPS_TIMELINE_BLOCK_H_
