// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assemble/item_index.h"

#include <protozero/exception.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/xspace/assemble/item_reader.h"

namespace jobscope::xspace {
namespace {

const char* KindName(ItemKind kind) {
  switch (kind) {
    case ItemKind::kEvents:
      return "events";
    case ItemKind::kNames:
      return "names";
    case ItemKind::kLine:
      return "line";
    case ItemKind::kPlane:
      return "plane";
    case ItemKind::kRawPlane:
      return "raw plane";
    case ItemKind::kLoss:
      return "loss";
    case ItemKind::kClock:
      return "clock";
    case ItemKind::kSummary:
      return "summary";
  }
  return "unknown kind";
}

}  // namespace

ItemIndexer::ItemIndexer(Unreadable unreadable)
    : unreadable_(unreadable), reader_(std::make_unique<ItemReader>(&index_)) {}

ItemIndexer::~ItemIndexer() = default;

absl::Status ItemIndexer::Add(const ItemView& item) {
  ++expected_;
  // After an item that is missing from the index, only an item without references is usable.
  if (!stopped_.ok() && item.kind != ItemKind::kSummary) return absl::OkStatus();
  absl::Status status = AddExpected(item);
  if (unreadable_ == Unreadable::kFail) return status;
  stopped_.Update(status);
  return absl::OkStatus();
}

absl::Status ItemIndexer::AddExpected(const ItemView& item) {
  if (item.number != expected_) {
    return absl::InvalidArgumentError(absl::StrCat("item ", item.number, " was found where item ",
                                                   expected_,
                                                   " is due: items are missing or were reordered"));
  }
  try {
    if (!reader_->Read(item)) ++unknown_kinds_[static_cast<uint32_t>(item.kind)];
  } catch (const protozero::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("item ", item.number, " (", KindName(item.kind), "): ", error.what()));
  }
  return absl::OkStatus();
}

ItemIndex ItemIndexer::Finish() {
  for (const auto& [kind, count] : unknown_kinds_) {
    index_.warnings.push_back(
        absl::StrCat(count, " items of kind ", kind,
                     " left out: the worker is newer than this program; update it to see them"));
  }
  index_.unreadable = std::move(stopped_);
  return std::move(index_);
}

absl::StatusOr<ItemIndex> IndexItems(absl::Span<const ItemView> items, ReadMeter* meter,
                                     Unreadable unreadable) {
  ItemIndexer indexer(unreadable);
  for (const ItemView& item : items) {
    AddRead(meter, item.body);
    if (absl::Status status = indexer.Add(item); !status.ok()) return status;
  }
  return indexer.Finish();
}

}  // namespace jobscope::xspace
