// SPDX-License-Identifier: Apache-2.0
//
// Provides the memory of a store: mapped blocks under a cap, each with a count of its owners.
#ifndef COMMON_XSPACE_SEGMENT_BLOCK_POOL_H_
#define COMMON_XSPACE_SEGMENT_BLOCK_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/sync/mutex.h"

namespace jobscope::xspace {

// Allocates memory blocks below a cap. A block counts against the cap until its last owner releases
// it, so that the cap also holds if a slow peer keeps blocks. Some returned blocks stay mapped for
// reuse (mapping a block anew costs up to 512 page faults); they count as mapped too.
// Thread-safe; an owner of a block may outlive the creator of the pool.
class BlockPool : public std::enable_shared_from_this<BlockPool> {
 public:
  // Never maps more than `cap_bytes`. `block_bytes` is the ordinary block size, of which some are
  // kept.
  BlockPool(size_t cap_bytes, size_t block_bytes);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Returns `bytes` (whole pages) of memory; null if more than `limit_bytes` would then be in use,
  // or the system has none. May hold the data of an earlier owner.
  std::shared_ptr<char> Take(size_t bytes, size_t limit_bytes);
  // Unmaps the spare blocks and keeps none from now on.
  void Close();

  // Size of blocks with an owner; the same plus the spare blocks; number of returned blocks.
  size_t in_use_bytes() const { return in_use_.load(std::memory_order_acquire); }
  size_t mapped_bytes() const { return mapped_.load(std::memory_order_acquire); }
  uint64_t returned_blocks() const { return returned_.load(std::memory_order_acquire); }

 private:
  void Return(char* data, size_t bytes);
  void UnmapSpares() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t cap_bytes_;
  const size_t block_bytes_;
  const size_t max_spares_;

  Mutex mutex_;
  std::vector<char*> spares_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Written under the lock, read without it.
  std::atomic<size_t> in_use_{0};
  std::atomic<size_t> mapped_{0};
  std::atomic<uint64_t> returned_{0};
};

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_SEGMENT_BLOCK_POOL_H_
