// SPDX-License-Identifier: Apache-2.0
#include "server/native/items/item_ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace jobscope {

void ItemLedger::OnSent(uint64_t through) { sent_ = std::max(sent_, through); }

absl::Status ItemLedger::Acknowledge(uint64_t through, bool* news) {
  *news = false;
  if (through > sent_) {
    return absl::InvalidArgumentError(absl::StrCat("ack.through = ", through,
                                                   " is out of range: at most ", sent_,
                                                   ", the newest item that was sent"));
  }
  *news = through > acknowledged_;
  acknowledged_ = std::max(acknowledged_, through);
  return absl::OkStatus();
}

absl::Status ItemLedger::Resume(uint64_t next_item) {
  if (next_item <= acknowledged_) {
    return absl::FailedPreconditionError(
        absl::StrCat("resume.next_item = ", next_item, ": items are held from number ",
                     acknowledged_ + 1, " on; those before it were acknowledged and released"));
  }
  if (next_item > sent_ + 1) {
    return absl::InvalidArgumentError(absl::StrCat("resume.next_item = ", next_item,
                                                   " is out of range: ", acknowledged_ + 1, " to ",
                                                   sent_ + 1, "; later items were never sent"));
  }
  acknowledged_ = next_item - 1;
  return absl::OkStatus();
}

}  // namespace jobscope
