// SPDX-License-Identifier: Apache-2.0
//
// Takes one worker's items as they come: checks their order, counts them, spools them.
#ifndef CLIENT_NATIVE_ITEM_RECEIVER_H_
#define CLIENT_NATIVE_ITEM_RECEIVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/run/spool.h"
#include "client/run/spool_index.h"
#include "client/wire/capture_message.h"

namespace jobscope {

// What has come so far.
struct ReceivedItems {
  uint64_t last_item = 0;      // all up to this one are spooled, or were left out
  uint64_t partial_bytes = 0;  // of the body of the next one: the chunks of it that are spooled
  uint64_t summary_item = 0;   // number of the summary; 0: none came
  uint64_t events = 0;         // in spooled events items, as these say
  // Of items that came and that this program knows, in the end spooled or not.
  uint64_t bytes = 0;
  int64_t last_start_ps = 0;  // largest start of an event, since the trace's zero
  // Why nothing that holds events is spooled from some item on; empty: everything is. "the trace
  // reached --max_trace_mb=64".
  std::string limit_reached;
  bool limited() const { return !limit_reached.empty(); }
  uint64_t left_out_events = 0;
  uint64_t empty_items = 0;    // the worker sent their numbers only
  uint64_t unknown_items = 0;  // of kinds that this program does not know: of a newer worker
  uint32_t unknown_kind = 0;   // the first of these kinds
  uint64_t event_bytes = 0;    // of the spool: events and frameworks' planes
  // At most so much memory does it take to index what is spooled.
  uint64_t index_bytes = 0;
};

// Bounds on what one worker may send, beside `max_trace_bytes`. Tests have smaller ones.
struct ReceiveLimits {
  // Of names, lines, planes, losses, clocks and the summary. A worker that records for an hour with
  // a million names sends some 60 MiB.
  uint64_t other_bytes = uint64_t{256} << 20;
  // Of those once the trace has reached its limit: what tells of the losses must still come.
  uint64_t tail_bytes = uint64_t{8} << 20;
  // Of ReceivedItems.index_bytes: two million items, an hour of 130 busy threads.
  uint64_t index_bytes = uint64_t{512} << 20;
  // A spool smaller than that is never the reason why a disk is full.
  uint64_t disk_check_bytes = uint64_t{64} << 20;
};

// Not thread-safe; Take and TakeChunk block for the disk.
class ItemReceiver {
 public:
  // The spool file is made in `directory` when the first item comes. `max_trace_bytes`: 0 for no
  // limit but the disk's.
  ItemReceiver(std::string directory, uint64_t max_trace_bytes, ReceiveLimits limits = {});

  // Takes the items of one jobscope.v1.Items. Items that came before are passed over.
  // kInvalidArgument: the worker sent what cannot be read, or left items out; what came before that
  // is taken. kOutOfRange: it has sent more than ReceiveLimits allow, and nothing more is taken.
  // Any other error is the disk's, and disk_error() from then on.
  absl::Status Take(std::string_view items);

  // Takes a piece of the next item. Errors as above; kInvalidArgument also if it is not the piece
  // that is due. The first piece may come again: then the item begins anew.
  absl::Status TakeChunk(const ItemChunk& chunk);

  const ReceivedItems& received() const { return received_; }
  const absl::Status& disk_error() const { return disk_error_; }
  // Null if no item came.
  std::unique_ptr<Spool> TakeSpool() { return std::move(spool_); }
  // Of that spool. Null: one is to be made.
  std::unique_ptr<SpoolIndex> TakeIndex() { return std::move(index_); }

 private:
  // An item that comes in chunks.
  struct Partial {
    xspace::ItemKind kind = xspace::ItemKind::kEvents;
    uint64_t body_bytes = 0;
    bool wanted = false;
    ReceivedItems after;  // when it is whole
  };

  // Counts an item of so many bytes, and says whether it belongs into the spool. Of an item in
  // chunks the body is its beginning.
  absl::StatusOr<bool> Count(const ItemField& item, uint64_t item_bytes, uint64_t body_bytes,
                             uint64_t spool_bytes, ReceivedItems* received) const;
  absl::Status CheckDue(uint64_t number, uint64_t last_item) const;
  // Not OK: disk_error_.
  absl::Status MakeSpool();
  void CheckDisk(ReceivedItems* received);
  // Of what is spooled; as long as that goes.
  void Index();

  const std::string directory_;
  const uint64_t max_trace_bytes_;
  const ReceiveLimits limits_;
  ReceivedItems received_;
  uint64_t checked_bytes_ = 0;  // of the spool, when the disk's room was looked at
  Partial partial_;
  absl::Status disk_error_;
  std::unique_ptr<Spool> spool_;
  bool index_wanted_ = true;
  std::unique_ptr<SpoolIndex> index_;
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_ITEM_RECEIVER_H_
