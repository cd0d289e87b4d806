// SPDX-License-Identifier: Apache-2.0
#ifndef COLLECTORS_HOST_RECORDER_FREE_LIST_H_
#define COLLECTORS_HOST_RECORDER_FREE_LIST_H_

#include <stdint.h>

#include <atomic>

namespace jobscope::recorder {

// A lock-free stack of indices into a table whose entries are never freed. Each change increments a
// tag, so that an entry that was popped and pushed again meanwhile is not mistaken for the old one
// (ABA).
class FreeList {
 public:
  // `next(index)` returns the entry's atomic link.
  template <typename Next>
  void Push(uint32_t index, Next next) {
    uint64_t head = head_.load(std::memory_order_relaxed);
    do {
      next(index).store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    } while (!head_.compare_exchange_weak(head, Pack(head, index + 1), std::memory_order_release,
                                          std::memory_order_relaxed));
    count_.fetch_add(1, std::memory_order_relaxed);
  }

  // Returns false when the list is empty.
  template <typename Next>
  bool Pop(uint32_t* index, Next next) {
    uint64_t head = head_.load(std::memory_order_acquire);
    while (static_cast<uint32_t>(head) != 0) {
      const uint32_t top = static_cast<uint32_t>(head) - 1;
      const uint32_t below = next(top).load(std::memory_order_relaxed);
      if (head_.compare_exchange_weak(head, Pack(head, below), std::memory_order_acquire,
                                      std::memory_order_acquire)) {
        count_.fetch_sub(1, std::memory_order_relaxed);
        *index = top;
        return true;
      }
    }
    return false;
  }

  // Exact while there are no concurrent changes.
  uint32_t count() const {
    const int32_t count = count_.load(std::memory_order_relaxed);
    return count > 0 ? static_cast<uint32_t>(count) : 0;
  }

 private:
  static uint64_t Pack(uint64_t old_head, uint32_t link) {
    return ((old_head >> 32) + 1) << 32 | link;
  }

  std::atomic<uint64_t> head_{0};  // tag << 32 | index + 1
  std::atomic<int32_t> count_{0};
};

}  // namespace jobscope::recorder

#endif  // COLLECTORS_HOST_RECORDER_FREE_LIST_H_
