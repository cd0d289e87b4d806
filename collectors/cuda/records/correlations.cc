// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/records/correlations.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace jobscope::cuda {
namespace {

// cudaErrorStreamCaptureWrongThread, equal in the driver: the recording goes on.
constexpr uint32_t kWrongThread = 908;

// Above the first number of ids, old ones are dropped; above the second, all without held
// activities.
constexpr size_t kManyIds = 100'000;
constexpr size_t kTooManyIds = 1'000'000;

bool IsWithin(uint64_t ticks, const Window& window) {
  return ticks >= window.start_ticks && ticks <= window.end_ticks;
}

}  // namespace

Correlations::Known& Correlations::Of(uint32_t correlation) {
  if (known_.size() >= kMaxIds && !known_.contains(correlation)) ForgetOlderHalf();
  return known_[correlation];
}

// Before CUPTI 13.1 update 1, nodes of graphs may have the ids of other calls (docs/cuda.md).
void Correlations::NoteRun(const Known& known) {
  if (known.has_call && known.has_work && known.of_graphs == known.work_in_graph) {
    recordings_.NoteRun(known.thread, known.call_ticks);
  }
}

Correlations::Known& Correlations::NoteWork(const TimedActivity& timed) {
  Known& known = Of(timed.activity.correlation);
  known.seen_ticks = std::max(known.seen_ticks, timed.start_ticks);
  if (!known.has_work) {
    known.launched = {timed.activity.type, timed.activity.device, timed.name};
    known.work_in_graph = timed.activity.graph != 0;
    known.has_work = true;
    NoteRun(known);
  }
  known.work_by_end = known.work_by_end || timed.start_ticks <= window_.end_ticks;
  return known;
}

void Correlations::NoteCall(const TimedActivity& timed, const ApiCall& call) {
  if (!call.may_have_work) return;
  const Activity& activity = timed.activity;
  Known& known = Of(activity.correlation);
  known.seen_ticks = std::max(known.seen_ticks, timed.start_ticks);
  const bool first = !known.has_call || (!activity.is_driver && !known.has_runtime_call);
  known.has_call = true;
  known.has_runtime_call = known.has_runtime_call || !activity.is_driver;
  // A failed call launched nothing.
  known.launches = known.launches || (call.launches && activity.result == 0);
  // An end that fails because the recording is invalid (901, 904) ends it, too.
  const bool counts =
      call.graph_recording > 0 ? activity.result == 0 : activity.result != kWrongThread;
  if (call.graph_recording != 0 && counts) {
    recordings_.Note(activity.thread, timed.start_ticks, call.graph_recording > 0);
  }
  if (first) {
    known.call_start_ns = activity.start_ns;
    known.call_ticks = timed.start_ticks;
    known.thread = activity.thread;
    known.of_graphs = call.of_graphs;
    NoteRun(known);
  }
}

const Correlations::Known* Correlations::Find(uint32_t correlation) const {
  const auto found = known_.find(correlation);
  return found == known_.end() ? nullptr : &found->second;
}

bool Correlations::IsSettled(const Activity& activity) const {
  const bool is_call = activity.type == ActivityType::kApi;
  if (activity.correlation == 0 || !(is_call || IsDeviceWork(activity.type))) return true;
  const Known* const known = Find(activity.correlation);
  if (known == nullptr) return is_call;  // a call without work
  if (!is_call) return known->has_call;
  return !known->launches || known->has_work;
}

bool Correlations::IsMissing(const Known& known) const {
  // Recordings of any thread: launches of another one may go into the same graph (autograd's do).
  return known.launches && !known.has_work && IsWithin(known.call_ticks, window_) &&
         !recordings_.At(known.call_ticks);
}

uint64_t Correlations::InFlight() const {
  return static_cast<uint64_t>(std::count_if(
      known_.begin(), known_.end(), [this](const auto& entry) { return IsMissing(entry.second); }));
}

Correlations::AfterTheEnd Correlations::LookAfter(bool all_came) const {
  AfterTheEnd after;
  for (const auto& [correlation, known] : known_) {
    if (!known.has_work) continue;
    if (!known.has_call) {
      if (all_came) after.unfinished += known.unfinished;
    } else if (known.call_ticks > window_.end_ticks) {
      after.without_times += known.without_times;
      after.unfinished += known.unfinished;
    } else if (IsWithin(known.call_ticks, window_) && !known.work_by_end) {
      ++after.began_after[known.launched.device];
    }
  }
  return after;
}

template <typename Condition>
void Correlations::ForgetIf(const Condition& is_old) {
  absl::erase_if(known_, [&](const auto& entry) {
    if (!is_old(entry.second)) return false;
    forgotten_launches_ += IsMissing(entry.second) ? 1 : 0;
    return true;
  });
}

void Correlations::ForgetOlderThan(uint64_t oldest_ticks, uint64_t held_ticks) {
  if (known_.size() < kManyIds) return;
  if (known_.size() >= kTooManyIds) {
    ForgetIf([&](const Known& known) { return known.seen_ticks < held_ticks; });
  } else {
    ForgetIf([&](const Known& known) {
      return known.seen_ticks < oldest_ticks && (known.has_work || !known.launches);
    });
  }
}

void Correlations::ForgetOlderHalf() {
  std::vector<uint64_t> seen;
  seen.reserve(known_.size());
  for (const auto& [correlation, known] : known_) seen.push_back(known.seen_ticks);
  const auto middle = seen.begin() + static_cast<std::ptrdiff_t>(seen.size() / 2);
  std::nth_element(seen.begin(), middle, seen.end());
  const uint64_t old_ticks = *middle;
  ForgetIf([&](const Known& known) {
    return known.seen_ticks <= old_ticks && (known.has_work || !known.launches);
  });
  if (known_.size() <= kMaxIds / 4 * 3) return;
  ForgetIf([&](const Known& known) { return known.seen_ticks <= old_ticks; });
}

}  // namespace jobscope::cuda
