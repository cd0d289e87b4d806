// SPDX-License-Identifier: Apache-2.0
//
// The bounded memory store of a session's items.
#ifndef COMMON_XSPACE_STORE_H_
#define COMMON_XSPACE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/xspace/item_sink.h"

namespace jobscope::xspace {

// One item as it lies in a store or a mapped spool file: the body's bytes, stable as long as that
// lives.
struct ItemView {
  uint64_t number = 0;
  ItemKind kind = ItemKind::kEvents;
  std::string_view body;
};

// mmap'ed blocks, mapped as they fill, given back to the system at destruction. Items never move.
class Store : public ItemSink {
 public:
  // Never maps more than `cap_bytes` (at least 1 MiB). 5 % of it is reserved for what is not
  // events.
  explicit Store(size_t cap_bytes);
  ~Store() override;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  [[nodiscard]] bool Append(ItemKind kind, std::string_view body) override;
  bool Full() const override;

  // The items appended so far, in order. Thread-safe; the views stay valid while the store lives.
  std::vector<ItemView> Items() const;
  size_t used_bytes() const;    // of items
  size_t mapped_bytes() const;  // of blocks
  uint64_t refused_items() const;

 private:
  struct State;
  State* const state_;
};

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_STORE_H_
