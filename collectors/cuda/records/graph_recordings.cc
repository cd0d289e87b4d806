// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/records/graph_recordings.h"

#include <algorithm>
#include <iterator>

namespace jobscope::cuda {
namespace {

// A call without a counterpart on its own thread.
struct LooseCall {
  uint64_t ticks = 0;
  bool begins = false;
  // Begins: how long the recording lasts if no thread ends it. Ends: since when it has lasted if no
  // thread began it.
  uint64_t limit_ticks = 0;
};

}  // namespace

void GraphRecordings::Note(uint32_t thread, uint64_t ticks, bool begins) {
  if (count_ >= kMaxCalls) return;
  ++count_;
  calls_[thread][ticks] = begins ? Call::kBegin : Call::kEnd;
  matched_ = false;
}

void GraphRecordings::NoteRun(uint32_t thread, uint64_t ticks) {
  const auto found = calls_.find(thread);
  if (found == calls_.end()) return;
  Calls& calls = found->second;
  const auto next = calls.upper_bound(ticks);
  if (next == calls.begin()) return;
  const auto last = std::prev(next);
  if (last->second != Call::kBegin || last->first == ticks) return;
  // The first one after the begin counts.
  if (next != calls.end() && next->second == Call::kRun) calls.erase(next);
  calls[ticks] = Call::kRun;
  matched_ = false;
}

void GraphRecordings::Match() const {
  times_.clear();
  std::vector<LooseCall> loose;
  for (const auto& [thread, calls] : calls_) {
    for (auto call = calls.begin(); call != calls.end(); ++call) {
      if (call->second == Call::kRun) continue;
      if (call->second == Call::kEnd) {
        loose.push_back({call->first, false, call == calls.begin() ? 0 : call->first});
        continue;
      }
      const auto next = std::next(call);
      const uint64_t next_ticks = next == calls.end() ? UINT64_MAX : next->first;
      // A thread may also launch into another stream while it records.
      const auto end = next != calls.end() && next->second == Call::kRun ? std::next(next) : next;
      if (end != calls.end() && end->second == Call::kEnd) {
        times_.emplace_back(call->first, end->first);
        call = end;
      } else {
        loose.push_back({call->first, true, next_ticks});
      }
    }
  }
  std::sort(loose.begin(), loose.end(),
            [](const LooseCall& a, const LooseCall& b) { return a.ticks < b.ticks; });
  std::vector<LooseCall> open;
  for (const LooseCall& call : loose) {
    if (call.begins) {
      open.push_back(call);
    } else if (!open.empty()) {
      times_.emplace_back(open.back().ticks, call.ticks);
      open.pop_back();
    } else {
      times_.emplace_back(call.limit_ticks, call.ticks);
    }
  }
  for (const LooseCall& call : open) times_.emplace_back(call.ticks, call.limit_ticks);
  std::sort(times_.begin(), times_.end());
  size_t last = 0;
  for (size_t i = 1; i < times_.size(); ++i) {
    if (times_[i].first <= times_[last].second) {
      times_[last].second = std::max(times_[last].second, times_[i].second);
    } else {
      times_[++last] = times_[i];
    }
  }
  if (!times_.empty()) times_.resize(last + 1);
  matched_ = true;
}

bool GraphRecordings::At(uint64_t ticks) const {
  if (!matched_) Match();
  const auto next = std::upper_bound(
      times_.begin(), times_.end(), ticks,
      [](uint64_t value, const std::pair<uint64_t, uint64_t>& time) { return value < time.first; });
  return next != times_.begin() && ticks < std::prev(next)->second;
}

}  // namespace jobscope::cuda
