// SPDX-License-Identifier: Apache-2.0
#include "analysis/trace/device_line.h"

#include <algorithm>

namespace jobscope::analysis {
namespace {

void AddTo(Intervals* intervals, const Interval& span) {
  if (!intervals->empty() && span.begin_ns < intervals->back().begin_ns) {
    intervals->push_back(span);  // out of order
  } else {
    Extend(intervals, span.begin_ns, span.end_ns);
  }
}

}  // namespace

void DeviceLine::Add(uint32_t name, EventKind kind, const Interval& span) {
  while (!stack_.empty() &&
         (!nests_ || span.begin_ns < stack_.back().span.begin_ns ||
          span.end_ns > stack_.back().span.end_ns || span.begin_ns == stack_.back().span.end_ns)) {
    Pop();
  }
  if (!stack_.empty()) {
    stack_.back().children_ns += span.length_ns();
    stack_.back().is_leaf = false;
  }
  stack_.push_back({name, kind, span});
}

void DeviceLine::Finish(Intervals* compute, Intervals* copies) {
  while (!stack_.empty()) Pop();
  compute->insert(compute->end(), compute_.begin(), compute_.end());
  copies->insert(copies->end(), copies_.begin(), copies_.end());
}

void DeviceLine::Pop() {
  const Open open = stack_.back();
  stack_.pop_back();
  const int64_t length_ns = open.span.length_ns();
  names_->Count(open.name, length_ns, std::max<int64_t>(0, length_ns - open.children_ns));
  if (!open.is_leaf) return;
  if (open.kind == EventKind::kCopy) AddTo(&copies_, open.span);
  if (ClassOf(open.kind) != StepClass::kTransfer && open.kind != EventKind::kCopy) {
    AddTo(&compute_, open.span);
  }
}

}  // namespace jobscope::analysis
