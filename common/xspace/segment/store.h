// SPDX-License-Identifier: Apache-2.0
//
// Stores a session's items in bounded memory.
#ifndef COMMON_XSPACE_SEGMENT_STORE_H_
#define COMMON_XSPACE_SEGMENT_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "common/xspace/segment/item_sink.h"

namespace jobscope::xspace {

// Views one item in a store or a mapped spool file: the body's bytes, stable as long as that lives.
struct ItemView {
  uint64_t number = 0;
  ItemKind kind = ItemKind::kEvents;
  std::string_view body;
};

// Holds an item together with shared ownership of its memory.
struct HeldItem {
  ItemView item;
  std::shared_ptr<const void> block;
};

// Stores a session's items in mmap'ed blocks. Blocks are mapped as they fill, and unmapped (but for
// a few MiB, which are reused) when their items are released and no HeldItem refers to them, or at
// destruction. Items never move.
//
// A block counts against the cap while it is mapped, so also while the holder of a HeldItem keeps
// it after its release: the cap holds however slow a peer is, and a peer that releases nothing
// finds the store full. Bookkeeping exists only for items that have not been released.
class Store : public ItemSink {
 public:
  // Never maps more than `cap_bytes` (at least 1 MiB): of it 5 % for items that are not events, and
  // 1.25 % only for losses and the summary. Takes `max_event_bytes` of events ever; 0: no bound.
  explicit Store(size_t cap_bytes, uint64_t max_event_bytes = 0);
  ~Store() override;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  [[nodiscard]] bool Append(ItemKind kind, std::string_view body) override;
  // True after Close; once the bound on all events is reached; and after a refusal, until blocks
  // have been returned and an eighth of the cap is free. This hysteresis keeps a store that is
  // released bit by bit from toggling with each item.
  bool Full() const override;

  // Returns the unreleased items so far, in order. Thread-safe; the views stay valid while the
  // store lives and the items are not released.
  std::vector<ItemView> Items() const;

  // Returns items from number `first` on, in order: as many as fit into `max_bytes` of bodies, at
  // least one if there is one. Skips released ones. Thread-safe.
  std::vector<HeldItem> Read(uint64_t first, size_t max_bytes) const;
  // Releases all items up to this number; blocks whose items are all released are freed. The freed
  // space lets a full store take events again. Thread-safe.
  void Release(uint64_t through);
  // Releases all items and takes none from now on: for a store whose reader is finished while an
  // abandoned writer may still append. Thread-safe.
  void Close();
  // Sets the function that is called after an Append for which NotifyFrom asked. Call it once,
  // before the first Append. The listener must not block and must not call the store.
  void SetListener(std::function<void()> listener);
  // Sets the function that is called once, by the Append that finds the bound on all events
  // reached. Call it before the first Append. The listener must not block and must not call the
  // store.
  void SetSpentListener(std::function<void()> listener);
  // Requests one call of the listener once an item with this number exists and the bodies from it
  // on take at least `min_bytes`. True: this holds already, and the listener will not be called.
  bool NotifyFrom(uint64_t number, size_t min_bytes = 0);

  size_t cap_bytes() const;       // in whole pages
  uint64_t last_number() const;   // 0: none yet
  uint64_t events() const;        // in events items appended so far, including released ones
  size_t appended_bytes() const;  // of bodies, including released ones
  size_t used_bytes() const;      // of unreleased items, with their overhead
  size_t mapped_bytes() const;    // of blocks
  uint64_t refused_items() const;
  bool spent() const;         // the bound on all events was reached
  bool lacked_space() const;  // an events item was refused because the cap was reached

 private:
  struct State;
  State* const state_;
};

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_SEGMENT_STORE_H_
