// SPDX-License-Identifier: Apache-2.0
//
// Builds one line from many segments: packs them into sorted runs, cuts them by time, merges the
// runs.
#ifndef COMMON_XSPACE_ASSEMBLE_LINE_MERGE_H_
#define COMMON_XSPACE_ASSEMBLE_LINE_MERGE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/xspace/assemble/item_index.h"
#include "common/xspace/assemble/output_buffer.h"
#include "common/xspace/assemble/read_meter.h"

namespace jobscope::xspace {

// Indices of segments whose concatenated events are sorted.
using Run = std::vector<uint32_t>;

// Packs all segments into the fewest runs. A segment joins a run if its first event sorts strictly
// after the run's last: events with equal start and length may be parent and child, and only the
// merge can order them.
std::vector<Run> PackRuns(const std::vector<Segment>& segments);

// Holds the events of a segment that start in [begin_ps, end_ps).
struct Slice {
  std::string_view events;
  uint64_t count = 0;
};
Slice Cut(const Segment& segment, int64_t begin_ps, int64_t end_ps, ReadMeter* meter = nullptr);

// Writes the events that start in [begin_ps, end_ps), sorted. Of events with equal start and
// length, that of the later item comes first, because a parent completes after its children; within
// an item the order is kept.
void WriteEvents(const std::vector<Segment>& segments, const std::vector<Run>& runs,
                 int64_t begin_ps, int64_t end_ps, OutputBuffer* out);

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_ASSEMBLE_LINE_MERGE_H_
