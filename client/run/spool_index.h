// SPDX-License-Identifier: Apache-2.0
//
// The assembler's index of a spool.
#ifndef CLIENT_RUN_SPOOL_INDEX_H_
#define CLIENT_RUN_SPOOL_INDEX_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "client/run/spool.h"
#include "common/xspace/assemble/item_index.h"

namespace jobscope {

// Checks and indexes what is spooled, which takes about a second per GB: while more is recorded, so
// that nobody waits for it in the end, as long as memory lasts. Not thread-safe.
//
// Memory: ReceivedItems.index_bytes at most. All indexes that are made while items come take 256
// MiB together; those that are made in the end, 1 GiB.
class SpoolIndex {
 public:
  // `spool` must outlive the calls of Follow and Complete.
  explicit SpoolIndex(const Spool* spool);
  ~SpoolIndex();
  SpoolIndex(const SpoolIndex&) = delete;
  SpoolIndex& operator=(const SpoolIndex&) = delete;

  // Indexes what was added since the last call. `index_bytes`: ReceivedItems.index_bytes. False:
  // not possible now, and this is of no further use; an index is to be made in the end.
  bool Follow(uint64_t index_bytes);

  // Indexes all that is still missing. Unless Follow has made room for it, waits for its turn.
  absl::Status Complete(uint64_t index_bytes);

  const SpoolItems& items() const { return items_; }
  // After Complete, once.
  xspace::ItemIndex TakeIndex() { return indexer_.Finish(); }

 private:
  class Memory;
  absl::Status Advance();

  SpoolItems items_;
  xspace::ItemIndexer indexer_{xspace::Unreadable::kStop};
  Memory* memory_ = nullptr;  // in which `held_bytes_` are taken
  uint64_t held_bytes_ = 0;
};

}  // namespace jobscope

#endif  // CLIENT_RUN_SPOOL_INDEX_H_
