// SPDX-License-Identifier: Apache-2.0
#include "client/fan_out/tally.h"

#include <algorithm>

namespace jobscope {

void Tally::OnProgress(const v1::Progress& before, const v1::Progress& now) {
  // Unsigned: a worker that counts backwards makes only the progress line wrong.
  events_ += now.events() - before.events();
  lost_ += now.lost() - before.lost();
  bytes_ += now.bytes() - before.bytes();
}

void Tally::OnFinished(Outcome outcome) {
  delivered_ += IsDelivery(outcome) ? 1 : 0;
  duplicates_ += outcome == Outcome::kDuplicate ? 1 : 0;
}

ProgressCounts Tally::Count(Roster* roster, const std::optional<StepsWanted>& steps,
                            absl::Time now) const {
  ProgressCounts counts;
  counts.total = roster->size() - duplicates_;
  counts.connecting =
      roster->in(Stage::kQueued) + roster->in(Stage::kConnecting) + roster->in(Stage::kBackingOff);
  counts.arming = roster->in(Stage::kArming);
  counts.ready = roster->waiting();
  counts.collecting = roster->Overdue(now);
  counts.recording = roster->in(Stage::kRecording)-counts.collecting;
  counts.left = roster->last_end() - now;
  counts.writing = roster->in(Stage::kWriting);
  counts.delivered = delivered_;
  counts.failed = roster->in(Stage::kDone)-delivered_ - duplicates_;
  counts.events = events_;
  counts.lost = lost_;
  counts.bytes = bytes_;
  if (!steps.has_value()) return counts;
  // The slowest of the workers that record.
  counts.steps_wanted = steps->count;
  counts.steps = counts.steps_wanted;
  for (size_t i = 0; i < roster->size(); ++i) {
    const Slot& slot = (*roster)[i];
    if (slot.stage != Stage::kRecording || !slot.window.has_value() || !slot.steps.has_value()) {
      continue;
    }
    const int64_t newest = slot.window->by_ordinal() ? static_cast<int64_t>(slot.steps->begun())
                                                     : slot.steps->current();
    const int64_t first = slot.window->first();
    // Unsigned: the difference of two workers' numbers may exceed the signed range.
    const uint64_t done =
        newest < first ? 0 : static_cast<uint64_t>(newest) - static_cast<uint64_t>(first);
    counts.steps = std::min(counts.steps, done);
  }
  return counts;
}

}  // namespace jobscope
