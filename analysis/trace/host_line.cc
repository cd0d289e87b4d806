// SPDX-License-Identifier: Apache-2.0
#include "analysis/trace/host_line.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace jobscope::analysis {
namespace {

// Maximum gap within a block of work. Between operators Python runs for some 10 us without being
// blocked, so short events with shorter gaps are one block.
constexpr int64_t kMaxGapNs = 50'000;
constexpr int64_t kShortEventNs = 1'000'000;

// Adds to a union of intervals. Inner intervals must come first, in the order of their ends.
void Cover(Intervals* cover, int64_t begin_ns, int64_t end_ns) {
  if (end_ns <= begin_ns) return;
  while (!cover->empty() && cover->back().begin_ns >= begin_ns) cover->pop_back();
  Extend(cover, begin_ns, end_ns);
}

}  // namespace

bool HostLine::Add(const HostEvent& event) {
  if (event.begin_ns < last_begin_ns_) return false;
  last_begin_ns_ = event.begin_ns;
  while (!stack_.empty() && stack_.back().event.end_ns <= event.begin_ns) Pop();
  if (event.step.has_value() && !in_step_) CutAround(event);
  Push(event);
  return true;
}

void HostLine::Finish() {
  while (!stack_.empty()) Pop();
  if (steps_.empty()) times_.busy.shrink_to_fit();
}

void HostLine::CutAround(const HostEvent& step) {
  while (!stack_.empty() && stack_.back().event.end_ns < step.end_ns) {
    Open& cut = stack_.back();
    if (stack_.size() > 1) {
      stack_[stack_.size() - 2].children_ns -= cut.event.end_ns - step.begin_ns;
    }
    cut.event.end_ns = step.begin_ns;
    Pop();
  }
}

void HostLine::Push(const HostEvent& event) {
  Open open;
  open.event = event;
  open.in_wait = event.kind == EventKind::kCollective || event.kind == EventKind::kInput;
  open.owner = event.name;
  std::optional<uint32_t> function;  // around it
  if (!stack_.empty()) {
    Open& parent = stack_.back();
    // If events overlap without nesting, the later one is cut.
    open.event.end_ns = std::min(open.event.end_ns, parent.event.end_ns);
    parent.children_ns += open.event.end_ns - open.event.begin_ns;
    parent.has_children = true;
    open.in_wait = open.in_wait || parent.in_wait;
    open.in_input = parent.in_input || parent.event.kind == EventKind::kInput;
    open.has_owner = parent.has_owner;
    if (parent.has_owner) open.owner = parent.owner;
    if (!parent.around_step) function = parent.function;
  }
  if (event.kind == EventKind::kCompilation && !open.has_owner) {
    open.has_owner = true;
    if (function.has_value()) open.owner = CompilationName(event, *function);
  }
  // Python frames are mostly the compiler's.
  open.function = absl::StartsWith((*names_)[event.name].name, "$") ? function : event.name;
  const int64_t begin_ns = open.event.begin_ns;
  const int64_t end_ns = open.event.end_ns;
  if (event.step.has_value() && !in_step_) {
    open.is_step = true;
    in_step_ = true;
    open.function.reset();
    // Events around one that is around a step are so, too.
    for (auto outer = stack_.rbegin(); outer != stack_.rend() && !outer->around_step; ++outer) {
      outer->around_step = true;
    }
  }
  switch (event.kind) {
    case EventKind::kInput:
      Extend(&times_.input, begin_ns, end_ns);
      break;
    case EventKind::kGarbageCollection:
      Extend(&times_.garbage_collection, begin_ns, end_ns);
      break;
    case EventKind::kCompilation:
      Extend(&times_.compilation, begin_ns, end_ns);
      break;
    case EventKind::kGil:
      Extend(&times_.gil, begin_ns, end_ns);
      break;
    case EventKind::kLaunch:
      Extend(&times_.launch, begin_ns, end_ns);
      break;
    default:
      break;
  }
  stack_.push_back(open);
}

// Returns the name of a compilation with the scope around it, which names the function:
// "backend_compile of PjitFunction(update)".
uint32_t HostLine::CompilationName(const HostEvent& event, uint32_t function) {
  const uint32_t together =
      names_->Intern(absl::StrCat((*names_)[event.name].name, " of ", (*names_)[function].name),
                     EventKind::kCompilation, {});
  names_->Count(together, event.end_ns - event.begin_ns, 0);
  return together;
}

void HostLine::Pop() {
  const Open open = stack_.back();
  stack_.pop_back();
  const int64_t duration_ns = open.event.end_ns - open.event.begin_ns;
  const int64_t self_ns = std::max<int64_t>(0, duration_ns - open.children_ns);
  names_->Count(open.event.name, duration_ns, self_ns);
  if (open.is_step) {
    EndStep(open);
    return;
  }
  if (open.around_step) return;
  Cover(&times_.host, open.event.begin_ns, open.event.end_ns);
  if (in_step_ || !steps_.empty()) {  // time before the first step belongs to none
    if (self_ns > 0) account_self_ns_[open.owner] += self_ns;
    AddInput(open, self_ns);
  } else if (is_helper_ && self_ns > 0) {
    self_ns_[open.owner] += self_ns;
  }
  if (!open.has_children) AddBusy(open);
}

void HostLine::AddBusy(const Open& open) {
  const HostEvent& event = open.event;
  if (open.in_wait || (*names_)[event.name].waits || event.end_ns <= event.begin_ns) return;
  const bool is_short = event.end_ns - event.begin_ns < kShortEventNs;
  if (is_short && !times_.busy.empty()) {
    BusyBlock& last = times_.busy.back();
    const bool last_short = last.merged || last.span.end_ns - last.span.begin_ns < kShortEventNs;
    if (last_short && event.begin_ns - last.span.end_ns < kMaxGapNs) {
      last.span.end_ns = std::max(last.span.end_ns, event.end_ns);
      last.merged = true;
      return;
    }
  }
  const bool may_wait = event.kind == EventKind::kScope && !IsOperator((*names_)[event.name].name);
  times_.busy.push_back({{event.begin_ns, event.end_ns}, false, may_wait});
}

void HostLine::AddInput(const Open& open, int64_t self_ns) {
  const bool outermost = open.event.kind == EventKind::kInput && !open.in_input;
  if (!outermost && !open.in_input) return;
  account_input_ns_[open.event.name] +=
      outermost ? open.event.end_ns - open.event.begin_ns : self_ns;
}

void HostLine::EndStep(const Open& open) {
  in_step_ = false;
  self_ns_.clear();
  StepEvent step;
  step.span.number = *open.event.step;
  step.span.begin_ns = open.event.begin_ns;
  step.span.end_ns = open.event.end_ns;
  step.span.not_running_ns = open.event.not_running_ns;
  step.span.cpu_ns = open.event.cpu_ns;
  step.name = open.event.name;
  for (const auto& [name, ns] : account_self_ns_) {
    step_self_ns_[name] += ns;
    // Of equal times, takes the first name of the table: the map has no order.
    if (ns > step.top_self_ns || (ns == step.top_self_ns && name < step.top_name)) {
      step.top_self_ns = ns;
      step.top_name = name;
    }
  }
  account_self_ns_.clear();
  for (const auto& [name, ns] : account_input_ns_) input_ns_[name] += ns;
  account_input_ns_.clear();
  steps_.push_back(step);
}

}  // namespace jobscope::analysis
