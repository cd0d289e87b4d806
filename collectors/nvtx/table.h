// SPDX-License-Identifier: Apache-2.0
//
// A bounded table that only grows: entries, and a hash index into them. Any thread may add; none
// waits. An entry is filled before the index publishes it (release), read after the index
// (acquire), and never changes afterwards. Two threads that add the same entry at once agree by
// compare-and-swap on the slot; the loser's entry stays unused and counts towards the bound.
#ifndef COLLECTORS_NVTX_TABLE_H_
#define COLLECTORS_NVTX_TABLE_H_

#include <array>
#include <atomic>
#include <cstdint>

namespace jobscope::nvtx {

// Maps hashes to entries without locks or allocation; entries are never removed. Entry has a member
// `uint64_t hash`. Meant for static storage: zero pages until used.
template <typename Entry, uint32_t kEntries>
class Table {
 public:
  static constexpr uint32_t kNone = 0;

  // Returns index + 1 of the entry with that hash that `equals`; kNone if there is none.
  template <typename Equals>
  uint32_t Find(uint64_t hash, Equals equals) const {
    for (uint32_t probe = 0; probe < kSlots; ++probe) {
      const uint32_t found = slots_[(hash + probe) % kSlots].load(std::memory_order_acquire);
      if (found == 0) return kNone;
      const Entry& entry = entries_[found - 1];
      if (entry.hash == hash && equals(entry)) return found;
    }
    return kNone;
  }

  // Does the same, but adds an entry made by `fill` if there is none; kNone if `limit` entries are
  // in use.
  template <typename Equals, typename Fill>
  uint32_t FindOrAdd(uint64_t hash, Equals equals, Fill fill, uint32_t limit = kEntries) {
    uint32_t mine = kNone;
    for (uint32_t probe = 0; probe < kSlots; ++probe) {
      std::atomic<uint32_t>& slot = slots_[(hash + probe) % kSlots];
      uint32_t found = slot.load(std::memory_order_acquire);
      if (found == 0) {
        if (mine == kNone) {
          mine = Allocate(limit < kEntries ? limit : kEntries);
          if (mine == kNone) return kNone;
          Entry& entry = entries_[mine - 1];
          entry.hash = hash;
          fill(&entry);
        }
        if (slot.compare_exchange_strong(found, mine, std::memory_order_acq_rel,
                                         std::memory_order_acquire)) {
          return mine;
        }
      }
      const Entry& entry = entries_[found - 1];
      if (entry.hash == hash && equals(entry)) return found;
    }
    return kNone;
  }

  const Entry& At(uint32_t id) const { return entries_[id - 1]; }
  Entry& At(uint32_t id) { return entries_[id - 1]; }

  // Returns the id of the used entry that starts at this address; kNone if there is none. For
  // handles that the application passes back.
  uint32_t IdOf(const void* address) const {
    const auto at = reinterpret_cast<uintptr_t>(address);
    const auto first = reinterpret_cast<uintptr_t>(entries_.data());
    if (at < first || (at - first) % sizeof(Entry) != 0) return kNone;
    const uintptr_t index = (at - first) / sizeof(Entry);
    return index < used_.load(std::memory_order_acquire) ? static_cast<uint32_t>(index + 1) : kNone;
  }

 private:
  static constexpr uint32_t SlotCount() {
    uint32_t slots = 2;
    while (slots < 2 * kEntries) slots *= 2;
    return slots;
  }
  static constexpr uint32_t kSlots = SlotCount();

  uint32_t Allocate(uint32_t limit) {
    uint32_t used = used_.load(std::memory_order_relaxed);
    do {
      if (used >= limit) return kNone;
    } while (!used_.compare_exchange_weak(used, used + 1, std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
    return used + 1;
  }

  std::atomic<uint32_t> used_;
  std::array<std::atomic<uint32_t>, kSlots> slots_;
  std::array<Entry, kEntries> entries_;
};

}  // namespace jobscope::nvtx

#endif  // COLLECTORS_NVTX_TABLE_H_
