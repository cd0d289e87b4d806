// SPDX-License-Identifier: Apache-2.0
//
// Sums up allocations by GPU and kind of memory.
#ifndef COLLECTORS_CUDA_EVENTS_MEMORY_TOTALS_H_
#define COLLECTORS_CUDA_EVENTS_MEMORY_TOTALS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "collectors/cuda/records/record.h"
#include "common/containers/hash_table.h"

namespace jobscope::cuda {

// Follows the allocations of a session, from its first record on. Pinned host memory is a kind of
// memory of the GPU whose context allocated it. Belongs to the collector's thread.
class MemoryTotals {
 public:
  // Bounds the blocks that are followed at one time, of 33 bytes each in a table that is half full
  // or fuller. The totals leave out further ones, as they do blocks from before the capture.
  static constexpr size_t kMaxBlocks = size_t{1} << 18;

  // The block that a record allocates or releases, and the totals of its GPU and kind after that.
  struct Change {
    int64_t bytes = 0;
    uint8_t kind = 0;
    int64_t allocated = 0;
    int64_t peak = 0;
  };
  Change Apply(const Activity& memory);
  // Number of allocations that the totals leave out.
  uint64_t left_out() const { return left_out_; }

 private:
  struct Totals {
    int64_t allocated = 0;
    int64_t peak = 0;
  };
  struct Block {
    int64_t bytes = 0;
    uint8_t kind = 0;
  };

  std::map<std::pair<uint32_t, uint8_t>, Totals> totals_;  // by GPU and kind
  HashMap<std::pair<uint32_t, uint64_t>, Block> blocks_;   // by GPU and address
  uint64_t left_out_ = 0;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_EVENTS_MEMORY_TOTALS_H_
