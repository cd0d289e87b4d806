// SPDX-License-Identifier: Apache-2.0
#include "client/item_receiver.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace jobscope {

using xspace::ItemKind;

ItemReceiver::ItemReceiver(std::string directory, uint64_t max_trace_bytes)
    : directory_(std::move(directory)), max_trace_bytes_(max_trace_bytes) {}

absl::StatusOr<bool> ItemReceiver::Count(const ItemField& item, uint64_t spool_bytes,
                                         ReceivedItems* received) const {
  EventsHead head;
  if (item.kind == ItemKind::kEvents) {
    const absl::StatusOr<EventsHead> read = ReadEventsHead(item.body);
    if (!read.ok()) return read.status();
    head = *read;
  }
  received->last_item = item.number;
  received->bytes += item.field.size();
  if (item.body.empty()) {
    // Over the worker's own limit of one item.
    ++received->empty_items;
    return false;
  }
  if (item.kind == ItemKind::kSummary) received->summary_item = item.number;
  if (item.kind != ItemKind::kEvents && item.kind != ItemKind::kRawPlane) return true;
  if (max_trace_bytes_ != 0 && spool_bytes + item.field.size() > max_trace_bytes_) {
    received->limit_reached = true;
  }
  if (received->limit_reached) {
    received->left_out_events += head.count;
    return false;
  }
  received->events += head.count;
  received->last_start_ps = std::max(received->last_start_ps, head.last_start_ps);
  return true;
}

absl::Status ItemReceiver::Take(std::string_view items) {
  if (!disk_error_.ok()) return disk_error_;
  ReceivedItems received = received_;
  std::vector<std::string_view> fields;
  uint64_t spool_bytes = spool_ == nullptr ? 0 : spool_->bytes();
  const absl::Status read = ReadItems(items, [&](const ItemField& item) -> absl::Status {
    if (item.number != 0 && item.number <= received.last_item) return absl::OkStatus();
    if (item.number != received.last_item + 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the worker sent item ", item.number, " where item ", received.last_item + 1, " is due"));
    }
    const absl::StatusOr<bool> wanted = Count(item, spool_bytes, &received);
    if (!wanted.ok()) return wanted.status();
    if (*wanted) {
      fields.push_back(item.field);
      spool_bytes += item.field.size();
    }
    return absl::OkStatus();
  });
  if (!fields.empty() && spool_ == nullptr) {
    absl::StatusOr<std::unique_ptr<Spool>> spool = Spool::Create(directory_);
    disk_error_ = spool.status();
    if (!spool.ok()) return disk_error_;
    spool_ = *std::move(spool);
  }
  if (!fields.empty()) disk_error_ = spool_->Append(fields);
  if (!disk_error_.ok()) return disk_error_;
  received_ = received;
  return read;
}

}  // namespace jobscope
