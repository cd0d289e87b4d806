// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/tracing/buffer_pool.h"

#include <errno.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "common/process/headroom.h"

namespace jobscope::cuda {
namespace {

constexpr size_t kPageBytes = 4096;
// CUPTI zeroes a buffer, then fills it from its begin. This exceeds the longest record, so that the
// first ones are detected whichever field is written first.
constexpr size_t kHeadWords = 64;

}  // namespace

BufferPool& BufferPool::Get() {
  static auto* const pool = new BufferPool;
  return *pool;
}

bool BufferPool::Prepare(size_t buffers, size_t ready, bool null_is_safe, std::string* error) {
  null_is_safe_.store(null_is_safe, std::memory_order_relaxed);
  if (base_.load(std::memory_order_acquire) == nullptr) {
    buffers = std::clamp<size_t>(buffers, 1, kMaxBuffers);
    void* const memory = MapLazily((buffers + kDiscardBuffers) * kBufferBytes, MAP_NORESERVE);
    if (memory == nullptr) {
      *error = std::strerror(errno);
      return false;
    }
    // A forked child cannot use CUPTI, but its exit code may read a buffer and must find mapped
    // memory. Kernels before 4.14 copy the buffers.
    (void)madvise(memory, (buffers + kDiscardBuffers) * kBufferBytes, MADV_WIPEONFORK);
    buffers_.store(buffers, std::memory_order_release);
    base_.store(static_cast<uint8_t*>(memory), std::memory_order_release);
  }
  if (forsake_.exchange(false, std::memory_order_acq_rel)) ForsakeLent();
  for (size_t slot = 0; slot < slots() + kDiscardBuffers; ++slot) {
    if (slots_[slot].forsaken_at < times_forsaken_) {
      (void)slots_[slot].Move(Slot::kForsaken, Slot::kFree);
    }
  }
  // Otherwise the first records of each buffer would cost page faults on application threads.
  for (size_t slot = 0; slot < std::min(ready, slots()); ++slot) {
    if (!slots_[slot].Move(Slot::kFree, Slot::kReading)) continue;
    volatile uint8_t* const data = DataOf(slot);
    for (size_t at = 0; at < kBufferBytes; at += kPageBytes) data[at] = 0;
    slots_[slot].touched.store(true, std::memory_order_relaxed);
    slots_[slot].state.store(Slot::kFree, std::memory_order_release);
  }
  return true;
}

void BufferPool::SetMode(Mode mode) {
  if (mode == Mode::kRecording) late_before_.store(UINT64_MAX, std::memory_order_relaxed);
  if (mode == Mode::kIdle && mode_.load(std::memory_order_relaxed) == Mode::kRecording) {
    keep_before_.store(Mark(), std::memory_order_release);
  }
  mode_.store(mode, std::memory_order_seq_cst);
}

void BufferPool::EndRecording(uint64_t mark) {
  late_before_.store(mark, std::memory_order_relaxed);
  SetMode(Mode::kIdle);
}

void BufferPool::Hand(size_t slot, uint8_t** buffer, size_t* size) {
  slots_[slot].touched.store(true, std::memory_order_relaxed);
  slots_[slot].lent_at.store(next_lent_.fetch_add(1, std::memory_order_relaxed),
                             std::memory_order_relaxed);
  *buffer = DataOf(slot);
  *size = kBufferBytes;
}

std::optional<size_t> BufferPool::Oldest(Slot::State state) const {
  std::optional<size_t> oldest;
  uint64_t oldest_order = UINT64_MAX;
  const size_t end = slots() + kDiscardBuffers;
  for (size_t slot = 0; slot < end; ++slot) {
    if (!slots_[slot].Is(state)) continue;
    const uint64_t order = slots_[slot].order.load(std::memory_order_relaxed);
    if (order < oldest_order) {
      oldest_order = order;
      oldest = slot;
    }
  }
  return oldest;
}

void BufferPool::Request(uint8_t** buffer, size_t* size, size_t* max_records) {
  BufferPool& pool = Get();
  *buffer = nullptr;
  *size = 0;
  *max_records = 0;  // no limit
  const size_t count = pool.slots();
  if (pool.base_.load(std::memory_order_acquire) == nullptr) return;
  // Where kernels stay traced: the next profiler of the process would get what is lent now.
  if (pool.mode_.load(std::memory_order_relaxed) == Mode::kIdle && pool.null_is_safe()) return;
  // The lowest free one: low slots are mapped, and suffice while the reader keeps up. At most 1,024
  // loads, once per MiB of records.
  for (size_t slot = 0; slot < count; ++slot) {
    if (pool.slots_[slot].state.load(std::memory_order_relaxed) != Slot::kFree) continue;
    if (pool.slots_[slot].Move(Slot::kFree, Slot::kLent)) return pool.Hand(slot, buffer, size);
  }
  if (pool.mode_.load(std::memory_order_relaxed) == Mode::kArmed) {
    for (int tries = 0; tries < 4; ++tries) {
      const std::optional<size_t> oldest = pool.Oldest(Slot::kFull);
      if (!oldest.has_value()) break;
      if (!pool.slots_[*oldest].Move(Slot::kFull, Slot::kLent)) continue;
      pool.counts_.recycled.fetch_add(1, std::memory_order_relaxed);
      return pool.Hand(*oldest, buffer, size);
    }
  }
  if (pool.null_is_safe_.load(std::memory_order_relaxed)) {
    pool.counts_.refused.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  pool.counts_.discarded.fetch_add(1, std::memory_order_relaxed);
  for (size_t slot = count; slot < count + kDiscardBuffers; ++slot) {
    if (pool.slots_[slot].Move(Slot::kFree, Slot::kLent)) return pool.Hand(slot, buffer, size);
  }
  pool.counts_.shared.fetch_add(1, std::memory_order_relaxed);
  pool.Hand(count + kDiscardBuffers - 1, buffer, size);
}

void BufferPool::Complete(void* /*context*/, uint32_t /*stream*/, uint8_t* buffer, size_t /*size*/,
                          size_t valid) {
  if (buffer == nullptr) return;
  BufferPool& pool = Get();
  const size_t end = pool.slots() + kDiscardBuffers;
  uint8_t* const base = pool.base_.load(std::memory_order_acquire);
  const auto offset = static_cast<size_t>(buffer - base);
  if (base == nullptr || buffer < base || offset >= end * kBufferBytes ||
      offset % kBufferBytes != 0) {
    pool.counts_.foreign.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Slot& slot = pool.slots_[offset / kBufferBytes];
  // A shared one is returned several times; the first return counts.
  uint32_t state = slot.state.load(std::memory_order_acquire);
  if (state == Slot::kLent && valid != 0 &&
      pool.mode_.load(std::memory_order_seq_cst) != Mode::kIdle) {
    slot.valid.store(std::min(valid, kBufferBytes), std::memory_order_relaxed);
    slot.order.store(pool.next_order_.fetch_add(1, std::memory_order_relaxed),
                     std::memory_order_relaxed);
    // Fails if the session writes the buffer off meanwhile.
    if (slot.state.compare_exchange_strong(state, Slot::kFull, std::memory_order_acq_rel)) return;
  }
  while (state == Slot::kLent || state == Slot::kOverdue || state == Slot::kForsaken) {
    const uint64_t lent_at = slot.lent_at.load(std::memory_order_relaxed);
    const bool keep = valid != 0 && state != Slot::kForsaken &&
                      lent_at < pool.keep_before_.load(std::memory_order_acquire);
    if (keep) slot.valid.store(std::min(valid, kBufferBytes), std::memory_order_relaxed);
    if (!slot.state.compare_exchange_weak(state, keep ? Slot::kKept : Slot::kFree,
                                          std::memory_order_acq_rel)) {
      continue;
    }
    const bool of_session =
        state != Slot::kLent || lent_at < pool.late_before_.load(std::memory_order_relaxed);
    if (valid != 0 && of_session) pool.counts_.late.fetch_add(1, std::memory_order_relaxed);
    return;
  }
}

std::optional<BufferPool::Full> BufferPool::Take(Slot::State state) {
  // Application threads reuse full buffers only before the start.
  while (true) {
    const std::optional<size_t> oldest = Oldest(state);
    if (!oldest.has_value()) return std::nullopt;
    if (!slots_[*oldest].Move(state, Slot::kReading)) continue;
    return Full{*oldest, DataOf(*oldest), slots_[*oldest].valid.load(std::memory_order_relaxed),
                *oldest >= slots(), *oldest == slots() + kDiscardBuffers - 1};
  }
}

void BufferPool::Free(size_t slot) {
  slots_[slot].state.store(Slot::kFree, std::memory_order_release);
}

size_t BufferPool::WriteOff() {
  size_t count = 0;
  const size_t end = slots() + kDiscardBuffers;
  for (size_t slot = 0; slot < end; ++slot) {
    if (slots_[slot].Is(Slot::kLent) && HoldsRecords(slot) &&
        slots_[slot].Move(Slot::kLent, Slot::kOverdue)) {
      ++count;
    }
  }
  return count;
}

void BufferPool::ForsakeLent() {
  ++times_forsaken_;
  const size_t end = slots() + kDiscardBuffers;
  for (size_t slot = 0; slot < end; ++slot) {
    for (const uint32_t from : {Slot::kLent, Slot::kOverdue}) {
      if (slots_[slot].Move(from, Slot::kForsaken)) slots_[slot].forsaken_at = times_forsaken_;
    }
  }
}

void BufferPool::ReleaseMemory() {
  if (base_.load(std::memory_order_acquire) == nullptr) return;
  const size_t end = slots() + kDiscardBuffers;
  for (size_t slot = 0; slot < end; ++slot) {
    if (!slots_[slot].touched.load(std::memory_order_relaxed)) continue;
    if (!slots_[slot].Move(Slot::kFree, Slot::kReading)) continue;
    (void)madvise(DataOf(slot), kBufferBytes, MADV_DONTNEED);
    slots_[slot].touched.store(false, std::memory_order_relaxed);
    slots_[slot].state.store(Slot::kFree, std::memory_order_release);
  }
}

// CUPTI may be writing to it: the read then sees the old or the new word, and the next read sees
// more.
__attribute__((no_sanitize("thread"))) bool BufferPool::HoldsRecords(size_t slot) const {
  const volatile auto* const head = reinterpret_cast<const volatile uint64_t*>(DataOf(slot));
  for (size_t i = 0; i < kHeadWords; ++i) {
    if (head[i] != 0) return true;
  }
  return false;
}

__attribute__((no_sanitize("thread"))) size_t BufferPool::WrittenBytes(size_t slot) const {
  const volatile auto* const data = reinterpret_cast<const volatile uint64_t*>(DataOf(slot));
  size_t words = kBufferBytes / sizeof(uint64_t);
  while (words > 0 && data[words - 1] == 0) --words;
  return words * sizeof(uint64_t);
}

bool BufferPool::IsDisregarded(size_t slot) const {
  const Slot& lent = slots_[slot];
  return lent.disregarded.load(std::memory_order_acquire) ==
             lent.lent_at.load(std::memory_order_relaxed) &&
         lent.disregarded_bytes.load(std::memory_order_relaxed) == WrittenBytes(slot);
}

size_t BufferPool::LentWithRecords(uint64_t mark) const {
  size_t count = 0;
  const size_t end = slots() + kDiscardBuffers;
  for (size_t slot = 0; slot < end; ++slot) {
    if (slots_[slot].Is(Slot::kLent) &&
        slots_[slot].lent_at.load(std::memory_order_relaxed) < mark && HoldsRecords(slot) &&
        !IsDisregarded(slot)) {
      ++count;
    }
  }
  return count;
}

bool BufferPool::HasLent() const {
  const size_t end = slots() + kDiscardBuffers;
  for (size_t slot = 0; slot < end; ++slot) {
    if (slots_[slot].IsOut() && !IsDisregarded(slot)) return true;
  }
  return false;
}

void BufferPool::Disregard(uint64_t mark) {
  const size_t end = slots() + kDiscardBuffers;
  for (size_t slot = 0; slot < end; ++slot) {
    const uint64_t lent_at = slots_[slot].lent_at.load(std::memory_order_relaxed);
    if (!slots_[slot].IsOut() || lent_at >= mark) continue;
    slots_[slot].disregarded_bytes.store(WrittenBytes(slot), std::memory_order_relaxed);
    slots_[slot].disregarded.store(lent_at, std::memory_order_release);
  }
}

BufferPool::Counts BufferPool::TakeCounts() {
  Counts counts;
  counts.refused = counts_.refused.exchange(0);
  counts.discarded = counts_.discarded.exchange(0);
  counts.shared = counts_.shared.exchange(0);
  counts.late = counts_.late.exchange(0);
  counts.recycled = counts_.recycled.exchange(0);
  counts.foreign = counts_.foreign.exchange(0);
  return counts;
}

bool BufferPool::ForgetShortage() {
  uint64_t requests = 0;
  for (std::atomic<uint64_t>* const count :
       {&counts_.refused, &counts_.discarded, &counts_.shared, &counts_.recycled}) {
    requests += count->exchange(0);
  }
  return requests > 0;
}

}  // namespace jobscope::cuda
