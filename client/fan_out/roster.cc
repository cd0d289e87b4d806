// SPDX-License-Identifier: Apache-2.0
#include "client/fan_out/roster.h"

namespace jobscope {
namespace {

// Per worker: a flapping connection must not fill the manifest.
constexpr size_t kMaxWarnings = 50;

}  // namespace

Roster::Roster(std::vector<Endpoint> endpoints, std::vector<std::string> stems)
    : slots_(endpoints.size()) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].endpoint = std::move(endpoints[i]);
    slots_[i].stem = std::move(stems[i]);
    slots_[i].result.account.address = slots_[i].endpoint.address;
    slots_[i].result.account.name = slots_[i].stem;
  }
  counts_[static_cast<size_t>(Stage::kQueued)] = slots_.size();
  first_attempts_ = slots_.size();
}

bool Roster::IsFirstAttempt(const Slot& slot) {
  return slot.attempt <= 1 && (slot.stage == Stage::kQueued || slot.stage == Stage::kConnecting ||
                               slot.stage == Stage::kArming);
}

void Roster::Move(size_t index, Stage to) {
  Slot& slot = slots_[index];
  first_attempts_ -= IsFirstAttempt(slot) ? 1 : 0;
  --counts_[static_cast<size_t>(slot.stage)];
  if (slot.stage == Stage::kBackingOff) wakes_.Remove(slot.wake, index);
  if (slot.stage == Stage::kRecording) ends_.Remove(slot.end, index);
  if (slot.stage == Stage::kSyncing) syncs_.Remove(slot.stalls, index);
  const bool attempting = slot.stage == Stage::kConnecting || slot.stage == Stage::kArming;
  if (attempting && to != Stage::kArming) attempts_.Remove(slot.stalls, index);
  slot.stage = to;
  ++counts_[static_cast<size_t>(to)];
  first_attempts_ += IsFirstAttempt(slot) ? 1 : 0;
}

void Roster::BeginAttempt(size_t index, absl::Time stalls) {
  Slot& slot = slots_[index];
  first_attempts_ -= IsFirstAttempt(slot) ? 1 : 0;
  ++slot.attempt;
  first_attempts_ += IsFirstAttempt(slot) ? 1 : 0;
  Move(index, Stage::kConnecting);
  slot.stalls = stalls;
  attempts_.Add(stalls, index);
  slot.described = false;
  slot.clock_id.clear();
  slot.pid.reset();
  slot.arm_clock.reset();
  slot.clock.reset();
  slot.steps.reset();
  slot.window.reset();
  slot.max_duration = absl::InfiniteDuration();
  slot.max_lookback = absl::InfiniteDuration();
  slot.progress.Clear();
  slot.started.reset();
  slot.result.account.warnings.clear();
}

void Roster::BeginSync(size_t index, absl::Time stalls) {
  Move(index, Stage::kSyncing);
  slots_[index].stalls = stalls;
  syncs_.Add(stalls, index);
}

void Roster::BackOff(size_t index, absl::Time until) {
  Move(index, Stage::kBackingOff);
  slots_[index].wake = until;
  wakes_.Add(until, index);
}

void Roster::Record(size_t index, absl::Time start, absl::Time end) {
  Move(index, Stage::kRecording);
  slots_[index].start = start;
  slots_[index].end = end;
  ends_.Add(end, index);
}

void Roster::SetEnd(size_t index, absl::Time end) {
  Slot& slot = slots_[index];
  if (slot.stage == Stage::kRecording && slot.end > end) {
    ends_.Remove(slot.end, index);
    ends_.Add(end, index);
  }
  slot.end = end;
}

void Roster::Warn(size_t index, std::string text) {
  std::vector<std::string>& warnings = slots_[index].result.account.warnings;
  if (warnings.size() < kMaxWarnings) warnings.push_back(std::move(text));
}

std::optional<size_t> Roster::NextToContact(absl::Time now) {
  const auto wake = wakes_.next();
  if (wake.has_value() && wake->first <= now) return wake->second;
  while (has_queued()) {
    const size_t index = next_queued_++;
    if (slots_[index].stage == Stage::kQueued) return index;
  }
  return std::nullopt;
}

size_t Roster::attempts(absl::Time now) {
  attempts_.Expire(now);
  return attempts_.size();
}

size_t Roster::syncs(absl::Time now) {
  syncs_.Expire(now);
  return syncs_.size();
}

size_t Roster::Overdue(absl::Time now) {
  ends_.Expire(now);
  return in(Stage::kRecording)-ends_.size();
}

}  // namespace jobscope
