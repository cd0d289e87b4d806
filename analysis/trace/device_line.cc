// SPDX-License-Identifier: Apache-2.0
#include "analysis/trace/device_line.h"

#include <algorithm>

namespace jobscope::analysis {
namespace {

void AddTo(DeviceTimes* times, const Interval& span) {
  times->sum_ns += static_cast<double>(span.length_ns());
  if (!times->spans.empty() && span.begin_ns < times->spans.back().begin_ns) {
    times->spans.push_back(span);  // out of order
  } else {
    Extend(&times->spans, span.begin_ns, span.end_ns);
  }
}

void AddTo(DeviceTimes* times, const DeviceTimes& more) {
  times->spans.insert(times->spans.end(), more.spans.begin(), more.spans.end());
  times->sum_ns += more.sum_ns;
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

void DeviceLine::Finish(DeviceTimes* compute, DeviceTimes* copies) {
  while (!stack_.empty()) Pop();
  AddTo(compute, compute_);
  AddTo(copies, copies_);
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
