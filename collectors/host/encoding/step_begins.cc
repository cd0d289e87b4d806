// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/encoding/step_begins.h"

#include <algorithm>

namespace jobscope::host {

void StepBegins::OnWait(uint64_t begin, uint64_t end) {
  begin = std::max(begin, last_step_end_);
  if (end <= begin) return;
  // Waits within this one are part of it.
  while (!waits_.empty() && waits_.back().begin >= begin) waits_.pop_back();
  if (waits_.size() == kMaxWaits) waits_.erase(waits_.begin());
  waits_.push_back({begin, end - begin});
}

void StepBegins::CoverWaits(uint64_t begin) {
  // A scope around the previous step cannot begin with the next one.
  if (begin < last_step_end_ || waits_.back().begin < begin) return;
  uint64_t waited = 0;
  while (!waits_.empty() && waits_.back().begin >= begin) {
    waited += waits_.back().waited;
    waits_.pop_back();
  }
  waits_.push_back({begin, waited});
}

void StepBegins::OnStepBegin(uint64_t begin) {
  OpenStep step{begin, begin};
  uint64_t waited = 0;
  for (auto wait = waits_.rbegin(); wait != waits_.rend(); ++wait) {
    waited += wait->waited;
    if (step.begin == begin || waited >= (begin - wait->begin) / 2) step.begin = wait->begin;
  }
  waits_.clear();
  if (open_.size() == kMaxOpenSteps) open_.erase(open_.begin());
  open_.push_back(step);
}

uint64_t StepBegins::OnStepEnd(uint64_t begin, uint64_t end) {
  const uint64_t in_trace = Of(begin);
  while (!open_.empty() && open_.back().marked >= begin) open_.pop_back();
  waits_.clear();
  last_step_end_ = std::max(last_step_end_, end);
  return in_trace;
}

uint64_t StepBegins::Of(uint64_t begin) const {
  const auto found = std::find_if(open_.rbegin(), open_.rend(),
                                  [begin](const OpenStep& step) { return step.marked == begin; });
  return found == open_.rend() ? begin : found->begin;
}

}  // namespace jobscope::host
