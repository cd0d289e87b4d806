// SPDX-License-Identifier: Apache-2.0
//
// Follows one buffer of the pool from request to return.
#ifndef COLLECTORS_CUDA_TRACING_BUFFER_SLOT_H_
#define COLLECTORS_CUDA_TRACING_BUFFER_SLOT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace jobscope::cuda {

// The state of one buffer: free -> lent to CUPTI -> full -> being read -> free. The thread that
// changes it with Move owns the buffer in the new state. Lock-free.
struct BufferSlot {
  // kOverdue: lent, and written off.
  // kForsaken: lent to a CUPTI that was finalized.
  // kKept: returned after the recording.
  enum State : uint32_t { kFree, kLent, kFull, kReading, kOverdue, kForsaken, kKept };

  // Changes the state from `from` to `to`; returns false if it is another.
  bool Move(uint32_t from, State to) {
    return state.compare_exchange_strong(from, to, std::memory_order_acq_rel);
  }
  bool Is(State expected) const { return state.load(std::memory_order_acquire) == expected; }
  // Returns whether CUPTI holds the buffer, also one that was written off.
  bool IsOut() const {
    const uint32_t now = state.load(std::memory_order_acquire);
    return now == kLent || now == kOverdue;
  }

  std::atomic<uint32_t> state{kFree};
  std::atomic<uint64_t> order{0};  // of completion
  std::atomic<uint64_t> lent_at{0};
  std::atomic<size_t> valid{0};
  std::atomic<bool> touched{false};
  std::atomic<uint64_t> disregarded{0};  // which time that it was lent, by lent_at
  std::atomic<size_t> disregarded_bytes{0};
  uint64_t forsaken_at = 0;  // used only by the collector's thread
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_BUFFER_SLOT_H_
