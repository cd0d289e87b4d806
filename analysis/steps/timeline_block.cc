// SPDX-License-Identifier: Apache-2.0
#include "analysis/steps/timeline_block.h"

#include <cstddef>

namespace jobscope::analysis {

std::vector<uint32_t> RowsOf(const std::vector<TimelineBlock>& blocks) {
  std::vector<uint32_t> rows;
  rows.reserve(blocks.size());
  std::vector<int64_t> ends;  // of each row of the line
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i > 0 && blocks[i].line != blocks[i - 1].line) ends.clear();
    size_t row = 0;
    while (row < ends.size() && ends[row] > blocks[i].span.begin_ns) ++row;
    if (row == ends.size()) ends.push_back(0);
    ends[row] = blocks[i].span.end_ns;
    rows.push_back(static_cast<uint32_t>(row));
  }
  return rows;
}

}  // namespace jobscope::analysis
