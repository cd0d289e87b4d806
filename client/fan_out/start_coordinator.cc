// SPDX-License-Identifier: Apache-2.0
#include "client/fan_out/start_coordinator.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/fan_out/step_plan.h"
#include "common/clock/monotonic.h"

namespace jobscope {
namespace {

// How long before a delayed start the clocks are measured: late, because they drift apart, but
// early enough for several thousand workers.
constexpr absl::Duration kSyncAhead = absl::Seconds(1);
// Interval of checks while waiting for a step.
constexpr absl::Duration kLook = absl::Milliseconds(100);
// Workers armed by steps send Progress every 200 ms; with a margin.
constexpr absl::Duration kReportPeriod = absl::Milliseconds(300);

constexpr uint64_t kNearRoundTripNs = 500'000;

bool MayBeginSteps(const ArmedWorker& worker) {
  return worker.streams && (!worker.steps.has_value() || worker.steps->begun() == 0);
}

}  // namespace

std::vector<ArmedWorker> StartCoordinator::ArmedWorkers() const {
  std::vector<ArmedWorker> workers;
  for (size_t i = 0; i < roster_->size(); ++i) {
    if (IsWaiting((*roster_)[i].stage)) workers.push_back(ArmedWorkerOf((*roster_)[i]));
  }
  return workers;
}

void StartCoordinator::OnAsked(absl::Time now) { arming_.OnAsked(now); }

void StartCoordinator::OnArmed(size_t index, absl::Time now) {
  arming_.OnAnswer((*roster_)[index].asked, now);
  // The others are already measured, or have begun.
  if (state_ == State::kSyncing || state_ == State::kStarted) RequestSync(index);
}

void StartCoordinator::MeasureClocks(absl::Time now) {
  while (!to_sync_.empty() && roster_->syncs(now) < options_.max_parallel) {
    const size_t index = to_sync_.front();
    to_sync_.pop_front();
    if ((*roster_)[index].stage == Stage::kArmed) BeginSync(index);
  }
}

absl::Time StartCoordinator::NextLook() const {
  switch (state_) {
    case State::kGathering:
      return GatherDeadline();
    case State::kHolding:
      return hold_until_;
    case State::kSyncing:
      return SyncDeadline();
    case State::kStarted:
      break;
  }
  return absl::InfiniteFuture();
}

bool StartCoordinator::IsHolding() const {
  return state_ == State::kHolding || (state_ == State::kGathering && gathered_.has_value());
}

void StartCoordinator::Advance(absl::Time now) {
  if (state_ == State::kGathering) Gather(now);
  if (state_ == State::kHolding) Hold(now);
  if (state_ == State::kSyncing) Measure(now);
}

// Waits until the workers that answer at their first attempt are armed, so that they start
// together. A refused, busy or silent worker does not delay them, wherever it is in the list.
void StartCoordinator::Gather(absl::Time now) {
  // Some workers may have returned from having their clocks measured.
  const size_t ready = roster_->waiting();
  const size_t may_come = roster_->may_come();
  const size_t wanted = options_.min_workers.value_or(1);
  if (ready + may_come < wanted) {
    if (ready == 0 && may_come == 0) return;
    host_->FinishUnstarted(
        {Outcome::kFailed, Phase::kArm,
         absl::StrCat("nothing was recorded: --min_workers=", wanted, ", but only ",
                      ready + may_come, " of ", roster_->size(), " workers can be armed"),
         std::nullopt});
    return;
  }
  if (ready < wanted) return;
  if (roster_->in(Stage::kQueued) > 0) return;
  if (roster_->first_attempts() > 0 && now < GatherDeadline()) return;
  state_ = State::kHolding;
  // A delay counts from the first time.
  if (!gathered_.has_value()) gathered_ = now;
  hold_until_ = now;
}

// Waits until the start is near: clocks drift apart, and a step is chosen from the newest known
// steps.
void StartCoordinator::Hold(absl::Time now) {
  if (roster_->waiting() < options_.min_workers.value_or(1)) {
    state_ = State::kGathering;
    return;
  }
  if (now < hold_until_) return;
  const absl::Time delayed = *gathered_ + options_.delay;
  if (!delay_over_ && now < delayed - kSyncAhead) {
    hold_until_ = delayed - kSyncAhead;
    return;
  }
  delay_over_ = true;
  if (AwaitsStep(delayed + options_.max_duration, now)) return;
  state_ = State::kSyncing;
  sync_began_ = now;
  syncing_.Begin(now);
  for (size_t i = 0; i < roster_->size(); ++i) {
    if ((*roster_)[i].stage == Stage::kArmed) RequestSync(i);
  }
}

bool StartCoordinator::AwaitsStep(absl::Time until, absl::Time now) {
  if (!options_.steps.has_value() || !options_.steps->first.has_value()) return false;
  const int64_t first = *options_.steps->first;
  const std::vector<ArmedWorker> workers = ArmedWorkers();
  const bool any_begun = std::any_of(workers.begin(), workers.end(), HasSteps);
  // Not by the time until the step begins: a long one becomes unreachable long before that.
  const auto is_last_chance = [&](absl::Duration wait) {
    return FirstReachableByAll(workers, MonotonicNow() + DurationNs(wait)) >= first;
  };
  hold_until_ = now + kLook;
  if (!any_begun) {
    // The job may still import or compile. After that time they record for the duration.
    if (now > until || std::none_of(workers.begin(), workers.end(), MayBeginSteps)) return false;
    none_begun_ = armed_before_steps_ = true;
  } else if (std::exchange(none_begun_, false) && !is_last_chance(kReportPeriod)) {
    // The steps of the other workers may have begun since their last reports.
    hold_until_ = now + kReportPeriod;
  } else if (is_last_chance(options_.times.near / 2)) {  // reachable at twice the measured rate
    return false;
  } else if (now > until) {
    host_->FinishUnstarted(
        {Outcome::kFailed, Phase::kArm,
         absl::StrCat("nothing was recorded: step ", first, " has not come within ",
                      absl::FormatDuration(options_.max_duration), "; the newest is step ",
                      NewestOfAll(workers),
                      "; raise --max_duration_ms, or give a nearer --start_step"),
         std::nullopt});
    return true;
  }
  if (!std::exchange(told_hold_, true)) {
    progress_->Line(absl::StrCat(
        "armed; waiting for step ", first, ", ",
        any_begun ? absl::StrCat("now at step ", NewestOfAll(workers)) : "no step has begun yet"));
  }
  return true;
}

void StartCoordinator::RequestSync(size_t index) {
  Slot& slot = (*roster_)[index];
  if (slot.streams && !slot.clock.has_value()) {
    if (clocks_.NeedsPings(slot)) {
      to_sync_.push_back(index);
      return;
    }
    slot.clock = slot.arm_clock;
    // Counts as near: the time to arm it, with many at once, says nothing about its path.
    slot.clock->round_trip_ns = std::min(slot.clock->round_trip_ns, kNearRoundTripNs);
  }
  roster_->Move(index, Stage::kSynced);
  if (state_ == State::kStarted) start_.StartLate(index, SteadyNow());
}

void StartCoordinator::BeginSync(size_t index) {
  const absl::Time asked = SteadyNow();
  syncing_.OnAsked(asked);
  roster_->BeginSync(index, asked + host_->StallTime());
  (*roster_)[index].worker->SyncClock(
      options_.times.sync,
      [this, index, asked, post = host_->Letters(index)](
          const grpc::Status& status, const std::optional<ClockEstimate>& clock) {
        post([this, index, asked, status, clock] { OnSynced(index, asked, status, clock); });
      });
}

void StartCoordinator::OnSynced(size_t index, absl::Time asked, const grpc::Status& status,
                                std::optional<ClockEstimate> clock) {
  Slot& slot = (*roster_)[index];
  if (slot.stage != Stage::kSyncing) return;
  slot.clock = clock.has_value() ? clock : slot.arm_clock;
  if (!slot.clock.has_value()) {
    roster_->Warn(index,
                  absl::StrCat("its clock could not be measured (",
                               status.ok() ? "no answer" : ReasonOf(status),
                               "): it starts by itself, and its times count from its own start"));
  }
  roster_->Move(index, Stage::kSynced);
  const absl::Time now = SteadyNow();
  syncing_.OnAnswer(asked, now);
  if (state_ == State::kStarted) start_.StartLate(index, now);
}

// A worker that does not answer delays the others no longer than one that does not arm.
void StartCoordinator::Measure(absl::Time now) {
  if (roster_->waiting() < options_.min_workers.value_or(1)) {
    state_ = State::kGathering;  // some died: waits for retries again, if there are any
    return;
  }
  const size_t unsettled = roster_->in(Stage::kArmed) + roster_->in(Stage::kSyncing);
  const bool enough = roster_->in(Stage::kSynced) >= options_.min_workers.value_or(1);
  if (unsettled > 0 && (!enough || roster_->in(Stage::kArmed) > 0 || now < SyncDeadline())) return;
  const absl::Duration delay = options_.delay > absl::ZeroDuration()
                                   ? *gathered_ + options_.delay - now
                                   : absl::ZeroDuration();
  const absl::Status chosen =
      start_.Choose(syncing_.last_answer() - sync_began_, delay, armed_before_steps_);
  if (!chosen.ok()) {
    host_->FinishUnstarted({Outcome::kFailed, Phase::kArm,
                            absl::StrCat("nothing was recorded: ", std::string(chosen.message())),
                            std::nullopt});
    return;
  }
  state_ = State::kStarted;
  host_->OnStartChosen();
}

}  // namespace jobscope
