// SPDX-License-Identifier: Apache-2.0
#include "client/roster.h"

namespace jobscope {

Roster::Roster(std::vector<Endpoint> endpoints, std::vector<std::string> stems)
    : slots_(endpoints.size()) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].endpoint = std::move(endpoints[i]);
    slots_[i].stem = std::move(stems[i]);
    slots_[i].result.account.address = slots_[i].endpoint.address;
    slots_[i].result.account.name = slots_[i].stem;
  }
  counts_[static_cast<size_t>(Step::kQueued)] = slots_.size();
  first_attempts_ = slots_.size();
}

bool Roster::IsFirstAttempt(const Slot& slot) {
  return slot.attempt <= 1 && (slot.step == Step::kQueued || slot.step == Step::kConnecting ||
                               slot.step == Step::kArming);
}

void Roster::Move(size_t index, Step to) {
  Slot& slot = slots_[index];
  first_attempts_ -= IsFirstAttempt(slot) ? 1 : 0;
  --counts_[static_cast<size_t>(slot.step)];
  if (slot.step == Step::kBackingOff) wakes_.erase({slot.wake, index});
  if (slot.step == Step::kRecording) ends_.erase({slot.end, index});
  slot.step = to;
  ++counts_[static_cast<size_t>(to)];
  first_attempts_ += IsFirstAttempt(slot) ? 1 : 0;
}

void Roster::BeginAttempt(size_t index) {
  Slot& slot = slots_[index];
  first_attempts_ -= IsFirstAttempt(slot) ? 1 : 0;
  ++slot.attempt;
  first_attempts_ += IsFirstAttempt(slot) ? 1 : 0;
  Move(index, Step::kConnecting);
}

void Roster::BackOff(size_t index, absl::Time until) {
  Move(index, Step::kBackingOff);
  slots_[index].wake = until;
  wakes_.emplace(until, index);
}

void Roster::Record(size_t index, absl::Time start, absl::Time end) {
  Move(index, Step::kRecording);
  slots_[index].start = start;
  slots_[index].end = end;
  ends_.emplace(end, index);
}

void Roster::SetEnd(size_t index, absl::Time end) {
  Slot& slot = slots_[index];
  if (slot.step == Step::kRecording && ends_.erase({slot.end, index}) > 0) {
    ends_.emplace(end, index);
  }
  slot.end = end;
}

std::optional<std::pair<absl::Time, size_t>> Roster::next_wake() const {
  if (wakes_.empty()) return std::nullopt;
  return *wakes_.begin();
}

size_t Roster::Overdue(absl::Time now) {
  while (!ends_.empty() && ends_.begin()->first <= now) ends_.erase(ends_.begin());
  return in(Step::kRecording)-ends_.size();
}

absl::Time Roster::last_end() const {
  return ends_.empty() ? absl::InfinitePast() : ends_.rbegin()->first;
}

absl::Time Roster::next_end() const {
  return ends_.empty() ? absl::InfiniteFuture() : ends_.begin()->first;
}

}  // namespace jobscope
