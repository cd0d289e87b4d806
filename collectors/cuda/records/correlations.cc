// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/records/correlations.h"

#include <algorithm>

namespace jobscope::cuda {
namespace {

// cudaErrorStreamCaptureWrongThread, equal in the driver: the recording goes on.
constexpr uint32_t kWrongThread = 908;

// Above the first number of ids, old ones are dropped; above the second, all without held
// activities. An id takes about 80 bytes.
constexpr size_t kManyIds = 100'000;
constexpr size_t kTooManyIds = 1'000'000;

bool IsWithin(uint64_t ticks, const Window& window) {
  return ticks >= window.start_ticks && ticks <= window.end_ticks;
}

}  // namespace

Correlations::Known& Correlations::NoteWork(const TimedActivity& timed, uint64_t window_end_ticks) {
  Known& known = known_[timed.activity.correlation];
  known.seen_ticks = std::max(known.seen_ticks, timed.start_ticks);
  if (!known.has_work) {
    known.launched = {timed.activity.type, timed.activity.device, timed.name};
  }
  known.has_work = true;
  known.work_by_end = known.work_by_end || timed.start_ticks <= window_end_ticks;
  return known;
}

void Correlations::NoteCall(const TimedActivity& timed, const ApiCall& call) {
  if (!call.may_have_work) return;
  const Activity& activity = timed.activity;
  Known& known = known_[activity.correlation];
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

bool Correlations::IsMissing(const Known& known, const Window& window) const {
  // Recordings of any thread: launches of another one may go into the same graph (autograd's do).
  return known.launches && !known.has_work && IsWithin(known.call_ticks, window) &&
         !recordings_.At(known.call_ticks);
}

uint64_t Correlations::InFlight(const Window& window) const {
  return static_cast<uint64_t>(std::count_if(
      known_.begin(), known_.end(),
      [this, &window](const auto& entry) { return IsMissing(entry.second, window); }));
}

Correlations::AfterTheEnd Correlations::LookAfter(const Window& window, bool all_came) const {
  AfterTheEnd after;
  for (const auto& [correlation, known] : known_) {
    if (!known.has_work) continue;
    if (!known.has_call) {
      if (all_came) after.unfinished += known.unfinished;
    } else if (known.call_ticks > window.end_ticks) {
      after.without_times += known.without_times;
      after.unfinished += known.unfinished;
    } else if (IsWithin(known.call_ticks, window) && !known.work_by_end) {
      ++after.began_after[known.launched.device];
    }
  }
  return after;
}

void Correlations::ForgetOlderThan(uint64_t oldest_ticks, uint64_t held_ticks,
                                   const Window& window) {
  if (known_.size() < kManyIds) return;
  const bool too_many = known_.size() >= kTooManyIds;
  absl::erase_if(known_, [&](const auto& entry) {
    const Known& known = entry.second;
    if (!too_many) {
      return known.seen_ticks < oldest_ticks && (known.has_work || !known.launches);
    }
    if (known.seen_ticks >= held_ticks) return false;
    forgotten_launches_ += IsMissing(known, window) ? 1 : 0;
    return true;
  });
}

}  // namespace jobscope::cuda
