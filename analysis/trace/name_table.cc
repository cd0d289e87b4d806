// SPDX-License-Identifier: Apache-2.0
#include "analysis/trace/name_table.h"

#include "common/text/utf8.h"

namespace jobscope::analysis {
namespace {

constexpr size_t kMaxNameBytes = 512;

}  // namespace

uint32_t NameTable::Intern(std::string_view name, EventKind kind, std::string_view source) {
  std::string key = CleanUtf8(name, kMaxNameBytes);
  auto known = indices_.find(key);
  if (known == indices_.end() && totals_.size() >= kMaxNames) {
    ++left_out_;
    key = std::string(kOthers);
    known = indices_.find(key);
    kind = EventKind::kScope;
    source = {};
  }
  if (known == indices_.end()) {
    NameTotals totals;
    totals.name = key;
    totals.waits = IsWait(name);
    known = indices_.emplace(std::move(key), static_cast<uint32_t>(totals_.size())).first;
    totals_.push_back(std::move(totals));
  }
  NameTotals& totals = totals_[known->second];
  SetKind(known->second, kind);
  if (totals.source.empty()) totals.source = CleanUtf8(source, kMaxNameBytes);
  return known->second;
}

}  // namespace jobscope::analysis
