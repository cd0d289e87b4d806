// SPDX-License-Identifier: Apache-2.0
//
// The memory of a store: mapped blocks under a cap, each with a count of its owners.
#ifndef COMMON_XSPACE_SEGMENT_BLOCK_POOL_H_
#define COMMON_XSPACE_SEGMENT_BLOCK_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace jobscope::xspace {

// A block counts against the cap from the time it is taken until its last owner lets go of it,
// whoever that is: the cap holds whatever a slow peer keeps of it. Some of those that come back are
// kept mapped for the next taker (a block that is mapped anew costs 256 page faults, about 0.1 ms);
// they count as mapped too. Thread-safe; an owner may outlive the pool's maker.
class BlockPool : public std::enable_shared_from_this<BlockPool> {
 public:
  // `cap_bytes`: never mapped beyond. `block_bytes`: the ordinary size, of which some are kept.
  BlockPool(size_t cap_bytes, size_t block_bytes);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // `bytes` (whole pages) of memory; null if more than `limit_bytes` would then be in use, or the
  // system has none. What an earlier owner wrote may stand in it.
  std::shared_ptr<char> Take(size_t bytes, size_t limit_bytes);
  // Keeps nothing any more.
  void Close();

  // Blocks with an owner, and with those that are kept; blocks that have come back.
  size_t in_use_bytes() const { return in_use_.load(std::memory_order_acquire); }
  size_t mapped_bytes() const { return mapped_.load(std::memory_order_acquire); }
  uint64_t returned_blocks() const { return returned_.load(std::memory_order_acquire); }

 private:
  void Return(char* data, size_t bytes);
  void UnmapSpares();  // with the lock

  const size_t cap_bytes_;
  const size_t block_bytes_;
  const size_t max_spares_;

  std::mutex mutex_;
  std::vector<char*> spares_;  // under the lock
  bool closed_ = false;        // likewise
  // Written under the lock, read without.
  std::atomic<size_t> in_use_{0};
  std::atomic<size_t> mapped_{0};
  std::atomic<uint64_t> returned_{0};
};

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_SEGMENT_BLOCK_POOL_H_
