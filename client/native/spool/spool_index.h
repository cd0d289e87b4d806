// SPDX-License-Identifier: Apache-2.0
//
// Builds the assembler's index of a spool.
#ifndef CLIENT_NATIVE_SPOOL_SPOOL_INDEX_H_
#define CLIENT_NATIVE_SPOOL_SPOOL_INDEX_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "client/native/spool/spool.h"
#include "common/xspace/assemble/item_index.h"

namespace jobscope {

// Checks and indexes spooled data, which takes about a second per GB: during the recording as long
// as memory is available, so that the end is not delayed. Not thread-safe.
//
// Memory: at most ReceivedItems.index_bytes. All indexes built during recordings take 64 MiB
// together; those built at the end, 1 GiB.
class SpoolIndex {
 public:
  // `spool` must outlive the calls of Follow and Complete.
  explicit SpoolIndex(const Spool* spool);
  ~SpoolIndex();
  SpoolIndex(const SpoolIndex&) = delete;
  SpoolIndex& operator=(const SpoolIndex&) = delete;

  // Indexes the items added since the last call. `index_bytes`: ReceivedItems.index_bytes. Returns
  // false if memory is short: this object is then unusable, and an index must be built at the end.
  bool Follow(uint64_t index_bytes);

  // Indexes all remaining items. Unless Follow has reserved memory, blocks until some is available.
  absl::Status Complete(uint64_t index_bytes);

  const SpoolItems& items() const { return items_; }
  // Call it once, after Complete.
  xspace::ItemIndex TakeIndex() { return indexer_.Finish(); }

 private:
  class Memory;
  absl::Status Advance();

  SpoolItems items_;
  xspace::ItemIndexer indexer_{xspace::Unreadable::kStop};
  Memory* memory_ = nullptr;  // the budget of `held_bytes_`
  uint64_t held_bytes_ = 0;
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_SPOOL_SPOOL_INDEX_H_
