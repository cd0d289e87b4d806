// SPDX-License-Identifier: Apache-2.0
#include "client/native/spool/item_receiver.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace jobscope {

using xspace::ItemKind;

namespace {

// No worker sends larger items.
constexpr uint64_t kMaxBodyBytes = uint64_t{64} << 20;
// Memory of the index (common/xspace/assemble/item_index), in vectors grown by doubling: a view and
// a segment per item. A names item has no segment, but 16 bytes per name, which takes at least 4.
// Other parsed items take at most 40 bytes per byte (an empty ThreadLoss).
constexpr uint64_t kIndexBytesPerItem = 256;
constexpr uint64_t kIndexBytesPerNamesItem = 64;
constexpr uint64_t kIndexBytesPerNamesByte = 8;
constexpr uint64_t kIndexBytesPerOtherByte = 48;
// The disk's free space is checked each time that a spool has grown by this.
constexpr uint64_t kDiskCheckStep = uint64_t{16} << 20;
// Pieces written at once.
constexpr size_t kMaxFields = 1024;

bool HoldsEvents(ItemKind kind) { return kind == ItemKind::kEvents || kind == ItemKind::kRawPlane; }

// Returns the most memory that the index of an item takes.
uint64_t IndexBytesOf(ItemKind kind, uint64_t body_bytes) {
  if (HoldsEvents(kind)) return kIndexBytesPerItem;
  if (kind == ItemKind::kNames) {
    return kIndexBytesPerNamesItem + kIndexBytesPerNamesByte * body_bytes;
  }
  return kIndexBytesPerItem + kIndexBytesPerOtherByte * body_bytes;
}

absl::Status TooMuch(absl::string_view what) {
  return absl::OutOfRangeError(
      absl::StrCat("the worker sent more than ", what, "; record for a shorter time"));
}

}  // namespace

ItemReceiver::ItemReceiver(std::string directory, uint64_t max_trace_bytes, ReceiveLimits limits)
    : directory_(std::move(directory)), max_trace_bytes_(max_trace_bytes), limits_(limits) {}

absl::StatusOr<bool> ItemReceiver::Count(const ItemField& item, uint64_t item_bytes,
                                         uint64_t body_bytes, uint64_t spool_bytes,
                                         ReceivedItems* received) const {
  EventsHead head;
  if (item.kind == ItemKind::kEvents) {
    const absl::StatusOr<EventsHead> read = ReadEventsHead(item.body);
    if (!read.ok()) return read.status();
    head = *read;
  }
  if (!IsKnownKind(item.kind)) {
    received->last_item = item.number;
    if (received->unknown_items++ == 0) received->unknown_kind = static_cast<uint32_t>(item.kind);
    return false;
  }
  if (body_bytes == 0) {
    // The worker sends an item above its size limit without its body.
    received->last_item = item.number;
    ++received->empty_items;
    if (absl::Status bounded = LeaveOut(item_bytes, received); !bounded.ok()) return bounded;
    return false;
  }
  if (max_trace_bytes_ != 0 && spool_bytes + item_bytes > max_trace_bytes_ &&
      !received->limited()) {
    received->limit_reached =
        absl::StrCat("the trace reached --max_trace_mb=", max_trace_bytes_ >> 20);
  }
  const bool holds_events = HoldsEvents(item.kind);
  const bool wanted = !holds_events || !received->limited();
  if (wanted) {
    const uint64_t other_bytes = spool_bytes - received->event_bytes;
    if (!holds_events && other_bytes + item_bytes > limits_.other_bytes) {
      return TooMuch(absl::StrCat(limits_.other_bytes >> 20, " MiB of names, lines and losses"));
    }
    if (max_trace_bytes_ != 0 && spool_bytes + item_bytes > max_trace_bytes_ + limits_.tail_bytes) {
      return TooMuch(absl::StrCat("--max_trace_mb=", max_trace_bytes_ >> 20, " and ",
                                  limits_.tail_bytes >> 20, " MiB of names, lines and losses"));
    }
    received->index_bytes += IndexBytesOf(item.kind, body_bytes);
    if (received->index_bytes > limits_.index_bytes) {
      return TooMuch(
          absl::StrCat("what can be indexed in ", limits_.index_bytes >> 20, " MiB of memory"));
    }
  }
  received->last_item = item.number;
  if (item.kind == ItemKind::kSummary) received->summary_item = item.number;
  if (!wanted) {
    received->left_out_events += head.count;
    received->left_out_planes += item.kind == ItemKind::kRawPlane ? 1 : 0;
    if (absl::Status bounded = LeaveOut(item_bytes, received); !bounded.ok()) return bounded;
    return false;
  }
  if (holds_events) received->event_bytes += item_bytes;
  received->events += head.count;
  received->last_start_ps = std::max(received->last_start_ps, head.last_start_ps);
  return true;
}

absl::Status ItemReceiver::LeaveOut(uint64_t bytes, ReceivedItems* received) const {
  received->left_out_bytes += bytes;
  if (received->left_out_bytes <= limits_.left_out_bytes) return absl::OkStatus();
  return TooMuch(absl::StrCat(limits_.left_out_bytes >> 20, " MiB that the trace has no room for"));
}

absl::Status ItemReceiver::CheckDue(uint64_t number, uint64_t last_item) const {
  if (number == last_item + 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the worker sent item ", number, " where item ", last_item + 1, " is due"));
}

absl::Status ItemReceiver::MakeSpool() {
  if (spool_ != nullptr) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<Spool>> spool = Spool::Create(directory_);
  disk_error_ = spool.status();
  if (spool.ok()) spool_ = *std::move(spool);
  return disk_error_;
}

void ItemReceiver::CheckDisk(ReceivedItems* received) {
  if (spool_ == nullptr || received->limited()) return;
  const uint64_t all_bytes = Spool::AllBytes();
  all_checked_bytes_ = std::min(all_checked_bytes_, all_bytes);  // some have been written
  const bool has_grown = spool_->bytes() >= limits_.disk_check_bytes &&
                         spool_->bytes() >= checked_bytes_ + kDiskCheckStep;
  if (!has_grown && all_bytes < all_checked_bytes_ + limits_.all_disk_check_bytes) return;
  checked_bytes_ = spool_->bytes();
  all_checked_bytes_ = all_bytes;
  if (!spool_->DiskIsLow()) return;
  received->limit_reached =
      absl::StrCat("the disk of ", directory_, " has no room for a longer trace");
}

void ItemReceiver::Index() {
  if (!index_wanted_ || spool_ == nullptr) return;
  if (index_ == nullptr) index_ = std::make_unique<SpoolIndex>(spool_.get());
  index_wanted_ = index_->Follow(received_.index_bytes);
  if (!index_wanted_) index_.reset();
}

absl::Status ItemReceiver::Take(std::string_view items) {
  if (!disk_error_.ok()) return disk_error_;
  ReceivedItems received = received_;
  CheckDisk(&received);
  std::vector<std::string_view> fields;
  uint64_t spool_bytes = spool_ == nullptr ? 0 : spool_->bytes();
  const auto write = [this, &fields]() -> absl::Status {
    if (fields.empty()) return absl::OkStatus();
    if (absl::Status made = MakeSpool(); !made.ok()) return made;
    disk_error_ = spool_->Append(fields);
    fields.clear();
    return disk_error_;
  };
  const absl::Status read = ReadItems(items, [&](const ItemField& item) -> absl::Status {
    if (item.number != 0 && item.number <= received.last_item) return absl::OkStatus();
    if (absl::Status due = CheckDue(item.number, received.last_item); !due.ok()) return due;
    const uint64_t begun_bytes = std::exchange(received.partial_bytes, 0);
    if (absl::Status bounded = LeaveOut(begun_bytes, &received); !bounded.ok()) return bounded;
    const absl::StatusOr<bool> wanted =
        Count(item, item.field.size(), item.body.size(), spool_bytes, &received);
    if (!wanted.ok()) return wanted.status();
    if (IsKnownKind(item.kind)) received.bytes += item.field.size();
    if (!*wanted) return absl::OkStatus();
    fields.push_back(item.field);
    spool_bytes += item.field.size();
    return fields.size() < kMaxFields ? absl::OkStatus() : write();
  });
  if (disk_error_.ok()) (void)write();
  if (!disk_error_.ok()) return disk_error_;
  received_ = std::move(received);
  Index();
  return read;
}

absl::Status ItemReceiver::TakeChunk(const ItemChunk& chunk) {
  if (!disk_error_.ok()) return disk_error_;
  if (chunk.number != 0 && chunk.number <= received_.last_item) return absl::OkStatus();
  if (absl::Status due = CheckDue(chunk.number, received_.last_item); !due.ok()) return due;
  const auto fault = [&chunk](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("the worker sent a piece of item ", chunk.number, " ", what));
  };
  if (chunk.data.empty() || chunk.body_bytes > kMaxBodyBytes || chunk.offset > chunk.body_bytes ||
      chunk.data.size() > chunk.body_bytes - chunk.offset) {
    return fault("beyond its end");
  }
  if (chunk.offset == 0) {
    CheckDisk(&received_);
    const uint64_t begun_bytes = std::exchange(received_.partial_bytes, 0);
    if (absl::Status bounded = LeaveOut(begun_bytes, &received_); !bounded.ok()) return bounded;
    Partial begun{chunk.kind, chunk.body_bytes, false, received_};
    const std::string head = ItemHead(chunk.number, chunk.kind, chunk.body_bytes);
    const ItemField item{{}, chunk.number, chunk.kind, chunk.data};
    const absl::StatusOr<bool> wanted =
        Count(item, head.size() + chunk.body_bytes, chunk.body_bytes,
              spool_ == nullptr ? 0 : spool_->bytes(), &begun.after);
    if (!wanted.ok()) return wanted.status();
    begun.wanted = *wanted;
    partial_ = std::move(begun);
    if (partial_.wanted) {
      if (absl::Status made = MakeSpool(); !made.ok()) return made;
      disk_error_ = spool_->Append({});  // discards what earlier pieces left
      if (disk_error_.ok()) disk_error_ = spool_->AppendPart(head);
    }
  } else if (chunk.offset + chunk.data.size() <= received_.partial_bytes) {
    return absl::OkStatus();  // received before
  } else if (chunk.offset != received_.partial_bytes || chunk.kind != partial_.kind ||
             chunk.body_bytes != partial_.body_bytes) {
    return fault(absl::StrCat("that begins at ", chunk.offset, " where ", received_.partial_bytes,
                              " is due"));
  }
  if (disk_error_.ok() && partial_.wanted) disk_error_ = spool_->AppendPart(chunk.data);
  if (!disk_error_.ok()) return disk_error_;
  received_.partial_bytes += chunk.data.size();
  if (IsKnownKind(chunk.kind)) received_.bytes += chunk.data.size();
  if (received_.partial_bytes < chunk.body_bytes) return absl::OkStatus();
  if (partial_.wanted) spool_->EndPart();
  const uint64_t bytes = received_.bytes;
  received_ = std::move(partial_.after);
  received_.bytes = bytes;
  received_.partial_bytes = 0;
  Index();
  return absl::OkStatus();
}

}  // namespace jobscope
