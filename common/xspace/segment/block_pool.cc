// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/block_pool.h"

#include <sys/mman.h>

#include <algorithm>

namespace jobscope::xspace {
namespace {

// Bounds blocks kept without an owner: what a stream at full speed reuses between two
// acknowledgements, and little compared with the cap.
constexpr size_t kMaxSpareBytes = size_t{4} << 20;

// From this size on, a pool takes huge pages: an ordinary capture stays below it, and one that
// exceeds it fills its blocks. A block of 2 MiB costs 0.9 ms of page faults with small pages, and
// 0.07 ms with one huge page.
constexpr size_t kHugeFromBytes = size_t{4} << 20;
constexpr size_t kHugePageBytes = size_t{2} << 20;

// Returns null if the system has no memory.
char* Map(size_t bytes) {
  void* const mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<char*>(mapped);
}

// Likewise, for whole huge pages. The kernel uses small ones if it has no huge ones, or none for
// processes.
char* MapHuge(size_t bytes) {
  char* const mapped = Map(bytes + kHugePageBytes);
  if (mapped == nullptr) return Map(bytes);
  const size_t before = -reinterpret_cast<uintptr_t>(mapped) % kHugePageBytes;
  char* const data = mapped + before;
  if (before > 0) munmap(mapped, before);
  munmap(data + bytes, kHugePageBytes - before);
  (void)madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

}  // namespace

BlockPool::BlockPool(size_t cap_bytes, size_t block_bytes)
    : cap_bytes_(cap_bytes),
      block_bytes_(block_bytes),
      max_spares_(std::min(kMaxSpareBytes, cap_bytes / 8) / block_bytes) {
  spares_.reserve(max_spares_);  // returned blocks must be stored without an allocation
}

BlockPool::~BlockPool() { Close(); }

std::shared_ptr<char> BlockPool::Take(size_t bytes, size_t limit_bytes) {
  char* data = nullptr;
  {
    const MutexLock lock(&mutex_);
    const size_t in_use = in_use_.load(std::memory_order_relaxed);
    if (bytes > limit_bytes || in_use > limit_bytes - bytes) return nullptr;
    if (bytes == block_bytes_ && !spares_.empty()) {
      data = spares_.back();
      spares_.pop_back();
    } else {
      if (mapped_.load(std::memory_order_relaxed) + bytes > cap_bytes_) UnmapSpares();
      const bool huge = in_use >= kHugeFromBytes && bytes % kHugePageBytes == 0;
      data = huge ? MapHuge(bytes) : Map(bytes);
      if (data == nullptr) return nullptr;
      mapped_.fetch_add(bytes, std::memory_order_release);
    }
    in_use_.store(in_use + bytes, std::memory_order_release);
  }
  return {data, [pool = shared_from_this(), bytes](char* block) { pool->Return(block, bytes); }};
}

void BlockPool::Return(char* data, size_t bytes) {
  const MutexLock lock(&mutex_);
  if (!closed_ && bytes == block_bytes_ && spares_.size() < max_spares_) {
    spares_.push_back(data);
  } else {
    munmap(data, bytes);
    mapped_.fetch_sub(bytes, std::memory_order_release);
  }
  in_use_.fetch_sub(bytes, std::memory_order_release);
  returned_.fetch_add(1, std::memory_order_release);
}

void BlockPool::UnmapSpares() {
  for (char* const spare : spares_) munmap(spare, block_bytes_);
  mapped_.fetch_sub(spares_.size() * block_bytes_, std::memory_order_release);
  spares_.clear();
}

void BlockPool::Close() {
  const MutexLock lock(&mutex_);
  closed_ = true;
  UnmapSpares();
}

}  // namespace jobscope::xspace
