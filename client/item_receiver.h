// SPDX-License-Identifier: Apache-2.0
//
// Takes one worker's items as they come: checks their order, counts them, spools them.
#ifndef CLIENT_ITEM_RECEIVER_H_
#define CLIENT_ITEM_RECEIVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/capture_message.h"
#include "client/spool.h"

namespace jobscope {

// What has come so far.
struct ReceivedItems {
  uint64_t last_item = 0;     // all up to this one are spooled, or were left out
  uint64_t summary_item = 0;  // number of the summary; 0: none came
  uint64_t events = 0;        // in spooled events items, as these say
  uint64_t bytes = 0;         // of items that came, in the end spooled or not
  int64_t last_start_ps = 0;  // largest start of an event, since the trace's zero
  // From the first item that would have taken the trace over its limit, nothing that holds events
  // is spooled.
  bool limit_reached = false;
  uint64_t left_out_events = 0;
  uint64_t empty_items = 0;  // the worker sent their numbers only
};

// Not thread-safe; Take blocks for the disk.
class ItemReceiver {
 public:
  // The spool file is made in `directory` when the first item comes. `max_trace_bytes`: 0 for no
  // limit but the disk's.
  ItemReceiver(std::string directory, uint64_t max_trace_bytes);

  // Takes the items of one jobscope.v1.Items. Items that came before are passed over.
  // kInvalidArgument: the worker sent what cannot be read, or left items out; what came before that
  // is taken. Any other error is the disk's, and disk_error() from then on.
  absl::Status Take(std::string_view items);

  const ReceivedItems& received() const { return received_; }
  const absl::Status& disk_error() const { return disk_error_; }
  // Null if no item came.
  std::unique_ptr<Spool> TakeSpool() { return std::move(spool_); }

 private:
  // Counts the item, and says whether it belongs into the spool.
  absl::StatusOr<bool> Count(const ItemField& item, uint64_t spool_bytes,
                             ReceivedItems* received) const;

  const std::string directory_;
  const uint64_t max_trace_bytes_;
  ReceivedItems received_;
  absl::Status disk_error_;
  std::unique_ptr<Spool> spool_;
};

}  // namespace jobscope

#endif  // CLIENT_ITEM_RECEIVER_H_
