// SPDX-License-Identifier: Apache-2.0
//
// Tracks which items of a capture were sent, and which its client has acknowledged.
#ifndef SERVER_NATIVE_ITEMS_ITEM_LEDGER_H_
#define SERVER_NATIVE_ITEMS_ITEM_LEDGER_H_

#include <cstdint>

#include "absl/status/status.h"

namespace jobscope {

// Counts items, which are numbered from 1. Not thread-safe.
class ItemLedger {
 public:
  // Records the newest item that any stream was given.
  void OnSent(uint64_t through);
  // The capture is over, and `item` is its last one; 0: it has none.
  void SetLast(uint64_t item) { last_ = item; }
  // The client has everything, or wants no more.
  void AcknowledgeAll() { acknowledged_ = last_; }

  // Records an acknowledgement. Returns INVALID_ARGUMENT if that item was never sent. `news`: more
  // is acknowledged than before.
  absl::Status Acknowledge(uint64_t through, bool* news);
  // Acknowledges the items before `next_item`. Returns FAILED_PRECONDITION if later ones have
  // already been released, INVALID_ARGUMENT if it lies beyond what was sent.
  absl::Status Resume(uint64_t next_item);

  uint64_t acknowledged() const { return acknowledged_; }
  uint64_t last() const { return last_; }
  // Number of items that the client lacks, once the capture is over.
  uint64_t outstanding() const { return last_ > acknowledged_ ? last_ - acknowledged_ : 0; }

 private:
  uint64_t sent_ = 0;
  uint64_t acknowledged_ = 0;
  uint64_t last_ = 0;
};

}  // namespace jobscope

#endif  // SERVER_NATIVE_ITEMS_ITEM_LEDGER_H_
