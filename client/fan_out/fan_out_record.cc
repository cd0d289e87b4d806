// SPDX-License-Identifier: Apache-2.0
//
// What comes after the start: counts, the trace, the end.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/clock/monotonic.h"
#include "client/fan_out/fan_out_state.h"

namespace jobscope {
namespace {

constexpr absl::Duration kStopTimeout = absl::Seconds(5);
// Of one worker: a connection that comes and goes must not fill the manifest.
constexpr size_t kMaxWarnings = 50;

}  // namespace

void FanOutState::Warn(size_t index, std::string text) {
  std::vector<std::string>& warnings = roster_[index].result.account.warnings;
  if (warnings.size() < kMaxWarnings) warnings.push_back(std::move(text));
}

void FanOutState::OnStarted(size_t index, const v1::Started& started) {
  Slot& slot = roster_[index];
  if (slot.step != Step::kRecording) return;
  slot.started = started;
  slot.result.account.late_ns = started.late_ns();
}

void FanOutState::OnProgress(size_t index, v1::Progress progress, uint64_t at_ns) {
  Slot& slot = roster_[index];
  if (slot.step == Step::kWriting || slot.step == Step::kDone) return;
  // Unsigned: a worker that counts backwards makes the line wrong, and nothing else.
  events_ += progress.events() - slot.progress.events();
  lost_ += progress.lost() - slot.progress.lost();
  bytes_ += progress.bytes() - slot.progress.bytes();
  if (progress.has_steps()) {
    slot.steps = progress.steps();
    slot.steps_seen_ns = at_ns;
  }
  slot.progress = std::move(progress);
}

void FanOutState::OnNote(size_t index, const std::string& text) {
  progress_->Line(absl::StrCat(roster_[index].endpoint.address, ": ", text));
  Warn(index, text);
}

void FanOutState::OnEnded(size_t index, const grpc::Status& status,
                          std::unique_ptr<Delivery> delivery) {
  Slot& slot = roster_[index];
  const bool recording = slot.step == Step::kRecording;
  if (!recording && slot.step != Step::kArmed && slot.step != Step::kSyncing &&
      slot.step != Step::kSynced) {
    return;
  }
  if (delivery == nullptr) {
    const absl::Time now = SteadyNow();
    const bool holding =
        stage_ == Stage::kHolding || (stage_ == Stage::kGathering && gathered_.has_value());
    if (!recording && holding && !interrupted_ &&
        status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      // A worker lets nobody be armed for ever. Whoever waits longer, for a delayed start or a step
      // that is far ahead, is armed anew; that ends with the waiting.
      ++slot.rearms;
      slot.worker.reset();
      roster_.BackOff(index, now + Backoff(1));
      return;
    }
    const Moment moment = !recording || now < slot.start ? Moment::kBeforeStart
                          : now < slot.end               ? Moment::kRecording
                                                         : Moment::kAfterEnd;
    Verdict verdict = JudgeCapture(status, moment);
    if (slot.stopped && verdict.outcome != Outcome::kBusy) {
      verdict.reason = absl::StrCat("interrupted: ", verdict.reason);
    }
    RetryOrFinish(index, std::move(verdict), absl::ZeroDuration());
    return;
  }
  roster_.Move(index, Step::kWriting);
  pool_.Run([this, index, post = Letters(index), account = slot.result.account,
             delivery = std::move(delivery)]() mutable {
    Verdict verdict = writer_(index, delivery.get(), &account);
    // What it holds, a file or memory, goes back before the next one is written.
    delivery.reset();
    post([this, index, verdict = std::move(verdict), account = std::move(account)]() mutable {
      OnWritten(index, std::move(verdict), std::move(account));
    });
  });
}

void FanOutState::OnWritten(size_t index, Verdict verdict, ManifestWorker account) {
  Slot& slot = roster_[index];
  slot.result.account = std::move(account);
  if (slot.streams && !slot.clock.has_value()) slot.result.account.aligned = false;
  Finish(index, std::move(verdict));
}

void FanOutState::Finish(size_t index, Verdict verdict) {
  Slot& slot = roster_[index];
  if (IsDelivery(verdict.outcome)) {
    ++delivered_;
  } else {
    progress_->Line(absl::StrCat(slot.endpoint.address, ": ", Name(verdict.outcome), " (",
                                 Name(verdict.phase), "): ", verdict.reason));
    // Counts of a trace that is not there would be added up.
    slot.result.account.events.reset();
    slot.result.account.lost.reset();
  }
  duplicates_ += verdict.outcome == Outcome::kDuplicate ? 1 : 0;
  slot.result.verdict = std::move(verdict);
  slot.result.account.attempts = slot.attempt;
  roster_.Move(index, Step::kDone);
  slot.worker.reset();  // cancels whatever is in flight
}

void FanOutState::FinishUnstarted(const Verdict& verdict) {
  for (size_t i = 0; i < roster_.size(); ++i) {
    switch (roster_[i].step) {
      case Step::kRecording:
      case Step::kWriting:
      case Step::kDone:
        break;
      default:
        Finish(i, verdict);
    }
  }
}

void FanOutState::OnInterrupt() {
  if (interrupted_) return;
  interrupted_ = true;
  progress_->Line("interrupted: stopping, and keeping what there is (once more to give up)");
  const absl::Time now = SteadyNow();
  for (size_t i = 0; i < roster_.size(); ++i) {
    Slot& slot = roster_[i];
    switch (slot.step) {
      case Step::kQueued:
      case Step::kConnecting:
      case Step::kBackingOff:
        Finish(i, {Outcome::kFailed, Phase::kConnect, "interrupted before anything was recorded",
                   std::nullopt});
        break;
      case Step::kArming:
      case Step::kArmed:
      case Step::kSyncing:
      case Step::kSynced:
        Finish(i, {Outcome::kFailed, Phase::kArm, "interrupted before anything was recorded",
                   std::nullopt});
        break;
      case Step::kRecording:
        if (now < slot.end) {
          slot.stopped = true;
          roster_.SetEnd(i, now);
          slot.worker->Stop(options_.session_id, kStopTimeout, [](const grpc::Status&, bool) {});
        }
        break;
      case Step::kWriting:
      case Step::kDone:
        break;
    }
  }
}

void FanOutState::FillFacts() {
  int64_t first = 0;
  int64_t last = 0;
  int starts = 0;
  for (size_t i = 0; i < roster_.size(); ++i) {
    const Slot& slot = roster_[i];
    if (!slot.clock.has_value() || !slot.started.has_value()) continue;
    facts_.clock_uncertainty_ns = std::max(facts_.clock_uncertainty_ns.value_or(0),
                                           UncertaintyAt(*slot.clock, plan_.start_monotonic_ns));
    // As unsigned numbers, relative to the plan: clocks may be anywhere.
    const auto behind = static_cast<int64_t>(slot.started->start_monotonic_ns() -
                                             static_cast<uint64_t>(slot.clock->offset_ns) -
                                             plan_.start_monotonic_ns);
    first = starts == 0 ? behind : std::min(first, behind);
    last = starts == 0 ? behind : std::max(last, behind);
    ++starts;
  }
  if (starts > 1) facts_.spread_ns = static_cast<uint64_t>(last) - static_cast<uint64_t>(first);
}

ProgressCounts FanOutState::Count(absl::Time now) {
  ProgressCounts counts;
  counts.total = roster_.size() - duplicates_;
  counts.connecting =
      roster_.in(Step::kQueued) + roster_.in(Step::kConnecting) + roster_.in(Step::kBackingOff);
  counts.arming = roster_.in(Step::kArming);
  counts.ready = roster_.waiting();
  counts.collecting = roster_.Overdue(now);
  counts.recording = roster_.in(Step::kRecording)-counts.collecting;
  counts.left = roster_.last_end() - now;
  counts.writing = roster_.in(Step::kWriting);
  counts.delivered = delivered_;
  counts.failed = roster_.in(Step::kDone)-delivered_ - duplicates_;
  counts.events = events_;
  counts.lost = lost_;
  counts.bytes = bytes_;
  if (!facts_.steps.has_value() || !progress_->IsDue(now)) return counts;
  // The slowest of those that record.
  counts.steps_wanted = options_.steps->count;
  counts.steps = counts.steps_wanted;
  for (size_t i = 0; i < roster_.size(); ++i) {
    const Slot& slot = roster_[i];
    if (slot.step != Step::kRecording || !slot.window.has_value() || !slot.steps.has_value()) {
      continue;
    }
    const int64_t newest = slot.window->by_ordinal() ? static_cast<int64_t>(slot.steps->begun())
                                                     : slot.steps->current();
    const int64_t first = slot.window->first();
    // Unsigned: numbers of workers may be as far apart as numbers can be.
    const uint64_t done =
        newest < first ? 0 : static_cast<uint64_t>(newest) - static_cast<uint64_t>(first);
    counts.steps = std::min(counts.steps, done);
  }
  return counts;
}

}  // namespace jobscope
