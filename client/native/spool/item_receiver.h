// SPDX-License-Identifier: Apache-2.0
//
// Receives one worker's items: checks their order, counts them, spools them.
#ifndef CLIENT_NATIVE_SPOOL_ITEM_RECEIVER_H_
#define CLIENT_NATIVE_SPOOL_ITEM_RECEIVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/native/spool/spool.h"
#include "client/native/spool/spool_index.h"
#include "client/native/wire/capture_message.h"

namespace jobscope {

// What has been received so far.
struct ReceivedItems {
  uint64_t last_item = 0;      // all up to this one are spooled, or were left out
  uint64_t partial_bytes = 0;  // of the next item's body: its chunks that are spooled
  uint64_t summary_item = 0;   // number of the summary; 0: none received
  uint64_t events = 0;         // in spooled events items, according to them
  // Of received items of known kinds, whether spooled or not.
  uint64_t bytes = 0;
  int64_t last_start_ps = 0;  // largest start of an event, since the trace's zero
  // Why items with events are no longer spooled; empty: all are. "the trace reached
  // --max_trace_mb=64".
  std::string limit_reached;
  bool limited() const { return !limit_reached.empty(); }
  uint64_t left_out_events = 0;
  uint64_t left_out_planes = 0;  // raw planes, whose events are not counted
  uint64_t left_out_bytes = 0;   // of `bytes`: not spooled, or spooled in part and received anew
  uint64_t empty_items = 0;      // of which the worker sent only the numbers
  uint64_t unknown_items = 0;    // of kinds unknown to this program: from a newer worker
  uint32_t unknown_kind = 0;     // the first of these kinds
  uint64_t event_bytes = 0;      // of the spool: events and raw planes
  // Upper bound of the memory to index what is spooled.
  uint64_t index_bytes = 0;
};

// Bounds on what one worker may send, in addition to `max_trace_bytes`. Tests use smaller ones.
struct ReceiveLimits {
  // Names, lines, planes, losses, clocks and the summary. A worker that records for an hour with a
  // million names sends about 60 MiB.
  uint64_t other_bytes = uint64_t{256} << 20;
  // The same after the trace has reached its limit: the account of losses must still arrive.
  uint64_t tail_bytes = uint64_t{8} << 20;
  // ReceivedItems.index_bytes: two million items, an hour of 130 busy threads.
  uint64_t index_bytes = uint64_t{512} << 20;
  // ReceivedItems.left_out_bytes: more than a worker's store holds, which is what it may still send
  // when the client asks it to end.
  uint64_t left_out_bytes = uint64_t{2} << 30;
  // While this spool is smaller, the disk's free space is checked only each time that all spools
  // together have grown by `all_disk_check_bytes`.
  uint64_t disk_check_bytes = uint64_t{64} << 20;
  uint64_t all_disk_check_bytes = uint64_t{1} << 30;
};

// Takes and counts items. Not thread-safe. Take and TakeChunk block on the disk.
class ItemReceiver {
 public:
  // The spool file is created in `directory` when the first item arrives. `max_trace_bytes`: 0 for
  // no limit but the disk's.
  ItemReceiver(std::string directory, uint64_t max_trace_bytes, ReceiveLimits limits = {});

  // Takes the items of one jobscope.v1.Items; skips items received before. Returns kInvalidArgument
  // if the worker sent unreadable bytes or omitted items; earlier items are taken. Returns
  // kOutOfRange if it sent more than ReceiveLimits allow; nothing more is taken. Any other error is
  // the disk's, and is disk_error() from then on.
  absl::Status Take(std::string_view items);

  // Takes a piece of the next item. Errors as above; also kInvalidArgument if it is not the next
  // piece. The first piece may be repeated: then the item starts again.
  absl::Status TakeChunk(const ItemChunk& chunk);

  const ReceivedItems& received() const { return received_; }
  const absl::Status& disk_error() const { return disk_error_; }
  // Null if no item was received.
  std::unique_ptr<Spool> TakeSpool() { return std::move(spool_); }
  // The index of that spool. Null: it must be built.
  std::unique_ptr<SpoolIndex> TakeIndex() { return std::move(index_); }

 private:
  // An item that arrives in chunks.
  struct Partial {
    xspace::ItemKind kind = xspace::ItemKind::kEvents;
    uint64_t body_bytes = 0;
    bool wanted = false;
    ReceivedItems after;  // state once it is complete
  };

  // Counts an item of `item_bytes`, and returns whether to spool it. For an item in chunks, the
  // body is its beginning.
  absl::StatusOr<bool> Count(const ItemField& item, uint64_t item_bytes, uint64_t body_bytes,
                             uint64_t spool_bytes, ReceivedItems* received) const;
  absl::Status LeaveOut(uint64_t bytes, ReceivedItems* received) const;
  absl::Status CheckDue(uint64_t number, uint64_t last_item) const;
  // Not OK: disk_error_.
  absl::Status MakeSpool();
  void CheckDisk(ReceivedItems* received);
  // Indexes what is spooled, as long as memory allows.
  void Index();

  const std::string directory_;
  const uint64_t max_trace_bytes_;
  const ReceiveLimits limits_;
  ReceivedItems received_;
  // The bytes in the spool, and all received bytes, when the disk's space was last checked.
  uint64_t checked_bytes_ = 0;
  uint64_t all_checked_bytes_ = 0;
  Partial partial_;
  absl::Status disk_error_;
  std::unique_ptr<Spool> spool_;
  bool index_wanted_ = true;
  std::unique_ptr<SpoolIndex> index_;
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_SPOOL_ITEM_RECEIVER_H_
