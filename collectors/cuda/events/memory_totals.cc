// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/events/memory_totals.h"

#include <algorithm>

#include "collectors/cuda/events/activity_names.h"

namespace jobscope::cuda {

MemoryTotals::Change MemoryTotals::Apply(const Activity& memory) {
  const bool allocation = memory.sub_kind == kMemoryAllocated;
  // A block from before the capture is known only by the record of its release.
  Block block = {static_cast<int64_t>(std::min<uint64_t>(memory.bytes, INT64_MAX)),
                 memory.source_memory};
  int64_t allocated = 0;
  int64_t released = 0;
  if (allocation) {
    if (blocks_.size() < kMaxBlocks || blocks_.contains({memory.device, memory.address})) {
      blocks_[{memory.device, memory.address}] = block;
      allocated = block.bytes;
    } else {
      ++left_out_;
    }
  } else if (const auto found = blocks_.find({memory.device, memory.address});
             found != blocks_.end()) {
    block = found->second;
    released = block.bytes;
    blocks_.erase(found);
  }
  Totals& totals = totals_[{memory.device, block.kind}];
  // Sizes that cannot be true saturate.
  totals.allocated = std::max<int64_t>(totals.allocated - released, 0);
  totals.allocated += std::min(allocated, INT64_MAX - totals.allocated);
  totals.peak = std::max(totals.peak, totals.allocated);
  return {block.bytes, block.kind, totals.allocated, totals.peak};
}

}  // namespace jobscope::cuda
