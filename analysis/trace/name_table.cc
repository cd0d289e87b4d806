// SPDX-License-Identifier: Apache-2.0
#include "analysis/trace/name_table.h"

#include "absl/strings/str_cat.h"
#include "common/text/utf8.h"

namespace jobscope::analysis {
namespace {

constexpr size_t kMaxNameBytes = 512;

// Returns the 32-bit FNV-1a hash: the same one in each process and on each machine, because names
// of several workers and runs are compared.
uint32_t Fnv1a(std::string_view bytes) {
  uint32_t hash = 2'166'136'261u;
  for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 16'777'619u;
  return hash;
}

// Returns the name of an entry. A name that is too long is cut and ends with a hash of the whole
// name, because kernels of one template may differ only beyond the cut.
std::string EntryName(std::string_view name) {
  if (name.size() <= kMaxNameBytes) return CleanUtf8(name, kMaxNameBytes);
  const std::string hash = absl::StrCat("... #", absl::Hex(Fnv1a(name), absl::kZeroPad8));
  return absl::StrCat(CleanUtf8(name, kMaxNameBytes - hash.size()), hash);
}

}  // namespace

uint32_t NameTable::Intern(std::string_view name, EventKind kind, std::string_view source) {
  std::string key = EntryName(name);
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
