// SPDX-License-Identifier: Apache-2.0
//
// The bounded memory store of a session's items.
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

// One item as it lies in a store or a mapped spool file: the body's bytes, stable as long as that
// lives.
struct ItemView {
  uint64_t number = 0;
  ItemKind kind = ItemKind::kEvents;
  std::string_view body;
};

// An item with a share in the memory it lies in.
struct HeldItem {
  ItemView item;
  std::shared_ptr<const void> block;
};

// mmap'ed blocks, mapped as they fill, given back to the system (but for a few MiB, which are used
// again) when their items are released and nobody holds them, or at destruction. Items never move.
//
// A block counts against the cap for as long as it is mapped, so also while the holder of a
// HeldItem keeps it after its release: the cap holds whatever a slow peer does, and a peer that
// lets go of nothing finds the store full. Bookkeeping is of the items that are not released,
// nothing else.
class Store : public ItemSink {
 public:
  // Never maps more than `cap_bytes` (at least 1 MiB). 5 % of it is reserved for what is not
  // events.
  explicit Store(size_t cap_bytes);
  ~Store() override;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  [[nodiscard]] bool Append(ItemKind kind, std::string_view body) override;
  // After Close; and after a refusal, until blocks have come back, and an eighth of the cap is
  // free. So a store that is released bit by bit does not turn full and back with each item.
  bool Full() const override;

  // The items appended so far and not released, in order. Thread-safe; the views stay valid while
  // the store lives and they are not released.
  std::vector<ItemView> Items() const;

  // Items from number `first` on, in order: as many as fit into `max_bytes` of bodies, at least
  // one if there is one. Released ones are skipped. Thread-safe.
  std::vector<HeldItem> Read(uint64_t first, size_t max_bytes) const;
  // Gives up the items up to this number; blocks all of whose items are released go. Room that
  // comes back makes a full store take events again. Thread-safe.
  void Release(uint64_t through);
  // Gives up all items, and takes none from now on: for a store whose reader has what it wants
  // while a writer that nobody waits for may still come. Thread-safe.
  void Close();
  // Called after an Append that NotifyFrom asked to be told of. Set once, before the first Append;
  // must not block and must not call the store.
  void SetListener(std::function<void()> listener);
  // Asks for one call of the listener once an item with this number exists, and the bodies from it
  // on take at least `min_bytes`. True: that is so already, nothing will be called.
  bool NotifyFrom(uint64_t number, size_t min_bytes = 0);

  size_t cap_bytes() const;       // in whole pages
  uint64_t last_number() const;   // 0: none yet
  uint64_t events() const;        // in events items appended so far, also in released ones
  size_t appended_bytes() const;  // of bodies, also of released ones
  size_t used_bytes() const;      // of items that are not released, with what each takes beside
  size_t mapped_bytes() const;    // of blocks
  uint64_t refused_items() const;

 private:
  struct State;
  State* const state_;
};

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_SEGMENT_STORE_H_
