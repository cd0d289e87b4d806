// SPDX-License-Identifier: Apache-2.0
//
// Hands the calls that have ended to the thread that writes them into the trace.
#ifndef COLLECTORS_PYTHON_CALLS_CALL_RING_H_
#define COLLECTORS_PYTHON_CALLS_CALL_RING_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace jobscope::python {

// Records a call that has ended.
struct CallRecord {
  uint64_t begin_ticks;
  uint64_t end_ticks;
  uint32_t code;
  uint32_t thread;  // index in the session
  uint32_t depth;
  uint32_t truncated;  // it began earlier, or is still open
};

// Bounded: takes no record while it is full. One writer at a time, the thread that holds the GIL;
// one reader, without it. Neither waits for the other.
class CallRing {
 public:
  static constexpr size_t kRecords = size_t{1} << 17;  // 4 MiB

  // `records` has kRecords elements.
  explicit CallRing(std::vector<CallRecord> records) : records_(std::move(records)) {}

  // Only the writer. Returns false if the ring is full.
  bool Add(const CallRecord& record) {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - seen_tail_ == kRecords) {
      seen_tail_ = tail_.load(std::memory_order_acquire);
      if (head - seen_tail_ == kRecords) return false;
    }
    records_[head % kRecords] = record;
    head_.store(head + 1, std::memory_order_release);
    return true;
  }

  // Only the reader. Takes up to `capacity` records; returns how many.
  size_t Take(CallRecord* out, size_t capacity) {
    const uint64_t head = head_.load(std::memory_order_acquire);
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    const size_t count = std::min<uint64_t>(head - tail, capacity);
    for (size_t i = 0; i < count; ++i) out[i] = records_[(tail + i) % kRecords];
    tail_.store(tail + count, std::memory_order_release);
    return count;
  }

 private:
  std::vector<CallRecord> records_;
  alignas(64) std::atomic<uint64_t> head_{0};
  uint64_t seen_tail_ = 0;  // the writer's latest copy of tail_
  alignas(64) std::atomic<uint64_t> tail_{0};
};

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_CALLS_CALL_RING_H_
