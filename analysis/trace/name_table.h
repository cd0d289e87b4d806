// SPDX-License-Identifier: Apache-2.0
//
// Sums events by name.
#ifndef ANALYSIS_TRACE_NAME_TABLE_H_
#define ANALYSIS_TRACE_NAME_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/trace/event_kinds.h"

namespace jobscope::analysis {

struct NameTotals {
  std::string name;
  EventKind kind = EventKind::kScope;
  bool waits = false;
  std::string source;  // file:line
  uint64_t count = 0;
  int64_t total_ns = 0;
  int64_t self_ns = 0;
  int64_t max_ns = 0;
  int64_t step_self_ns = 0;  // of the step thread or the devices, within accounts of steps
  int64_t input_ns = 0;      // likewise: of an input wait all, of what is inside one the self time
};

// Interns the names of one worker's threads, or of its devices. Indices are dense from 0.
class NameTable {
 public:
  // Bounds memory for programs that put numbers into names: further names share one entry.
  static constexpr size_t kMaxNames = 65536;
  static constexpr std::string_view kOthers = "(other names)";

  // Returns the index of a name.
  uint32_t Intern(std::string_view name, EventKind kind, std::string_view source);
  // The first kind other than kScope is kept.
  void SetKind(uint32_t index, EventKind kind) {
    if (totals_[index].kind == EventKind::kScope) totals_[index].kind = kind;
  }

  void Count(uint32_t index, int64_t duration_ns, int64_t self_ns) {
    NameTotals& totals = totals_[index];
    ++totals.count;
    totals.total_ns += duration_ns;
    totals.self_ns += self_ns;
    totals.max_ns = std::max(totals.max_ns, duration_ns);
  }

  const NameTotals& operator[](uint32_t index) const { return totals_[index]; }
  NameTotals& operator[](uint32_t index) { return totals_[index]; }
  size_t size() const { return totals_.size(); }
  uint64_t left_out() const { return left_out_; }  // number of times that a name did not fit

 private:
  absl::flat_hash_map<std::string, uint32_t> indices_;
  std::vector<NameTotals> totals_;
  uint64_t left_out_ = 0;
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TRACE_NAME_TABLE_H_
