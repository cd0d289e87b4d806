// SPDX-License-Identifier: Apache-2.0
#include "client/fan_out/start_coordinator.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/fan_out/start_plan.h"
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

// Shortest lead to a step. A worker that is late for an instant begins late; one that is late for a
// step has missed it. Of captures of one worker by steps of 2.7 ms, on two busy cores with a lead
// of 1 ms, 2 of 8 began to watch 3 ms late.
constexpr absl::Duration kMinLeadToStep = absl::Milliseconds(20);

uint64_t Nanoseconds(absl::Duration duration) {
  return static_cast<uint64_t>(std::max<int64_t>(absl::ToInt64Nanoseconds(duration), 0));
}

ArmedWorker Describe(const Slot& slot) {
  return {slot.endpoint.address, slot.streams, slot.clock,
          slot.lookback_ns,      slot.steps,   slot.steps_seen_ns};
}

bool MayBeginSteps(const ArmedWorker& worker) {
  return worker.streams && (!worker.steps.has_value() || worker.steps->begun() == 0);
}

}  // namespace

absl::Time StartCoordinator::GatherDeadline() const {
  return std::max(last_asked_, last_ready_) + std::max(options_.times.gather, 4 * slowest_ready_);
}

absl::Time StartCoordinator::SyncDeadline() const {
  return std::max(last_pinged_, last_synced_) + std::max(options_.times.gather, 4 * slowest_sync_);
}

std::vector<ArmedWorker> StartCoordinator::ArmedWorkers() const {
  std::vector<ArmedWorker> workers;
  for (size_t i = 0; i < roster_->size(); ++i) {
    const Stage stage = (*roster_)[i].stage;
    if (stage == Stage::kArmed || stage == Stage::kSyncing || stage == Stage::kSynced) {
      workers.push_back(Describe((*roster_)[i]));
    }
  }
  return workers;
}

void StartCoordinator::OnAsked(absl::Time now) { last_asked_ = now; }

void StartCoordinator::OnArmed(size_t index, absl::Time now) {
  last_ready_ = now;
  slowest_ready_ = std::max(slowest_ready_, now - (*roster_)[index].asked);
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
  sync_began_ = last_pinged_ = last_synced_ = now;
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
    return FirstReachableByAll(workers, MonotonicNow() + Nanoseconds(wait)) >= first;
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
  if (state_ == State::kStarted) StartLate(index, SteadyNow());
}

void StartCoordinator::BeginSync(size_t index) {
  const absl::Time asked = SteadyNow();
  last_pinged_ = asked;
  roster_->BeginSync(index, asked + host_->StallTime());
  (*roster_)[index].worker->SyncClock(
      options_.times.sync,
      [this, index, asked, post = host_->Letters(index)](
          const grpc::Status& status, const std::optional<ClockEstimate>& clock) {
        post([this, index, asked, status, clock] {
          slowest_sync_ = std::max(slowest_sync_, SteadyNow() - asked);
          OnSynced(index, status, clock);
        });
      });
}

void StartCoordinator::OnSynced(size_t index, const grpc::Status& status,
                                std::optional<ClockEstimate> clock) {
  Slot& slot = (*roster_)[index];
  if (slot.stage != Stage::kSyncing) return;
  slot.clock = clock.has_value() ? clock : slot.arm_clock;
  if (!slot.clock.has_value()) {
    host_->Warn(index,
                absl::StrCat("its clock could not be measured (",
                             status.ok() ? "no answer" : ReasonOf(status),
                             "): it starts by itself, and its times count from its own start"));
  }
  roster_->Move(index, Stage::kSynced);
  const absl::Time now = SteadyNow();
  last_synced_ = now;
  if (state_ == State::kStarted) StartLate(index, now);
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
  ChooseStart(now);
}

absl::Duration StartCoordinator::ArmRoundTrip(const std::vector<size_t>& members) const {
  std::vector<uint64_t> round_trips;
  for (const size_t index : members) {
    const std::optional<ClockEstimate>& clock = (*roster_)[index].arm_clock;
    if (clock.has_value()) round_trips.push_back(clock->round_trip_ns);
  }
  if (round_trips.empty()) return absl::ZeroDuration();
  const auto at = round_trips.begin() + static_cast<ptrdiff_t>(round_trips.size() * 9 / 10);
  std::nth_element(round_trips.begin(), at, round_trips.end());
  return absl::Nanoseconds(*at);
}

void StartCoordinator::ChooseStart(absl::Time now) {
  clocks_.Combine(roster_);
  std::vector<size_t> members;
  std::vector<ArmedWorker> workers;
  for (size_t i = 0; i < roster_->size(); ++i) {
    if ((*roster_)[i].stage != Stage::kSynced) continue;
    members.push_back(i);
    workers.push_back(Describe((*roster_)[i]));
  }
  // If few or no workers receive pings: the lead is at least twice the round trip of arming, for
  // all but the slowest tenth.
  const absl::Duration busy = std::max(last_synced_ - sync_began_, 4 * ArmRoundTrip(members));
  absl::Duration lead = StartLead(workers, busy);
  if (options_.steps.has_value()) lead = std::max(lead, kMinLeadToStep);
  if (options_.delay > absl::ZeroDuration()) {
    lead = std::max(lead, *gathered_ + options_.delay - now);
  }
  const uint64_t now_ns = MonotonicNow();
  plan_.start_monotonic_ns = now_ns + Nanoseconds(lead);
  if (options_.steps.has_value()) {
    StepsWanted wanted = *options_.steps;
    absl::StatusOr<std::optional<StepPlan>> steps =
        ChooseSteps(wanted, workers, plan_.start_monotonic_ns);
    if (absl::IsOutOfRange(steps.status()) && armed_before_steps_) {
      // Nobody could ask earlier: the first steps that can be reached instead of none.
      wanted.first.reset();
      steps = ChooseSteps(wanted, workers, plan_.start_monotonic_ns);
    }
    if (!steps.ok()) {
      host_->FinishUnstarted(
          {Outcome::kFailed, Phase::kArm,
           absl::StrCat("nothing was recorded: ", std::string(steps.status().message())),
           std::nullopt});
      return;
    }
    facts_.steps = *steps;
  }
  const uint64_t lookback = GrantedLookback(Nanoseconds(options_.lookback), workers);
  plan_.zero_monotonic_ns = plan_.start_monotonic_ns - std::min(lookback, plan_.start_monotonic_ns);
  plan_.start_unix_ns = absl::ToUnixNanos(absl::Now()) +
                        static_cast<int64_t>(plan_.start_monotonic_ns - MonotonicNow());
  plan_.zero_unix_ns = plan_.start_unix_ns -
                       static_cast<int64_t>(plan_.start_monotonic_ns - plan_.zero_monotonic_ns);
  plan_.duration = options_.duration;
  plan_.transfer = options_.times.transfer;
  state_ = State::kStarted;
  facts_.started = absl::FromUnixNanos(plan_.start_unix_ns);
  if (options_.lookback > absl::ZeroDuration()) facts_.lookback_ns = lookback;
  for (const size_t index : members) Begin(index, plan_);
  host_->OnStartChosen();
}

// Starts a worker that was armed, and measured, after the instant was chosen.
void StartCoordinator::StartLate(size_t index, absl::Time now) {
  Slot& slot = (*roster_)[index];
  clocks_.CombineLate(&slot);
  // As one of many: it must not be later than necessary.
  absl::Duration lead = StartLead({Describe(slot)}, absl::ZeroDuration());
  if (options_.steps.has_value()) lead = std::max(lead, kMinLeadToStep);
  StartCall call = plan_;
  const absl::Time planned = SteadyTime(plan_.start_monotonic_ns);
  if (planned < now + lead) {
    const uint64_t behind = Nanoseconds(now + lead - planned);
    call.start_monotonic_ns += behind;
    call.start_unix_ns += static_cast<int64_t>(behind);
    host_->Warn(index, absl::StrCat("began ", behind / 1'000'000, " ms after the others"));
  }
  Begin(index, call);
}

void StartCoordinator::Begin(size_t index, StartCall call) {
  Slot& slot = (*roster_)[index];
  if (slot.streams) {
    call.clock = slot.clock;
    // Machines cloned while running may report the same id. Their clocks differ.
    if (slot.clock.has_value() && slot.clock->offset_ns == 0) call.process_id = slot.pid;
    if (options_.steps.has_value()) AddSteps(index, &call);
  }
  if (slot.clock.has_value()) {
    ManifestWorker& account = slot.result.account;
    account.clock_offset_ns = slot.clock->realtime_offset_ns;
    account.clock_uncertainty_ns = UncertaintyAt(*slot.clock, call.start_monotonic_ns);
  }
  const absl::Time start = SteadyTime(call.start_monotonic_ns);
  roster_->Record(index, start, start + call.duration);
  slot.worker->Start(call);
}

// All workers with steps record the same ones, as far as their counts can be matched; the others
// record for the duration, from the same instant.
void StartCoordinator::AddSteps(size_t index, StartCall* call) {
  Slot& slot = (*roster_)[index];
  const ArmedWorker worker = Describe(slot);
  if (!HasSteps(worker)) {
    host_->Warn(
        index,
        absl::StrCat(slot.steps.has_value() && slot.steps->begun() > 0
                         ? "its step numbers do not rise, and this version of its library cannot "
                           "count steps"
                         : "it had begun no step (JOBSCOPE_STEP, jobscope.step)",
                     ": recorded for --duration_ms=", absl::ToInt64Milliseconds(options_.duration),
                     " instead of --steps=", options_.steps->count));
    return;
  }
  const int64_t reachable = FirstReachableStep(worker, call->start_monotonic_ns);
  v1::StepWindow window;
  if (!facts_.steps.has_value()) {
    window = WindowFrom(std::max(reachable, options_.steps->first.value_or(reachable)),
                        options_.steps->count, worker);
    host_->Warn(index, absl::StrCat("no worker had begun a step when the others started: recorded "
                                    "from its step ",
                                    window.first(), " on"));
  } else if (!CanMatch(*facts_.steps, worker)) {
    window = WindowFrom(reachable, options_.steps->count, worker);
    host_->Warn(index, absl::StrCat("counts its steps differently from the workers that had "
                                    "started: recorded from its step ",
                                    reachable, " on"));
  } else {
    window = WindowOf(*facts_.steps, worker);
    if (facts_.steps->first > options_.steps->first.value_or(INT64_MAX)) {
      host_->Warn(index, absl::StrCat("step ", *options_.steps->first,
                                      " could not be reached after the job's first step was "
                                      "seen: recorded from step ",
                                      window.first(), " on"));
    }
    if (reachable > window.first()) {
      host_->Warn(index, absl::StrCat("too late for step ", window.first(), ": recorded from step ",
                                      reachable, " on"));
      window = WindowFrom(reachable, options_.steps->count, worker);
    }
  }
  if (window.by_ordinal()) {
    ++facts_.workers_by_ordinal;
    host_->Warn(index, absl::StrCat("its step numbers do not rise: recorded its steps ",
                                    window.first(), " to ", window.last(), " by count"));
  }
  slot.window = window;
  call->steps = window;
  call->duration = std::min(options_.max_duration, slot.max_duration);
}

void StartCoordinator::MeasureSpread() {
  int64_t first = 0;
  int64_t last = 0;
  int starts = 0;
  for (size_t i = 0; i < roster_->size(); ++i) {
    const Slot& slot = (*roster_)[i];
    if (!slot.clock.has_value() || !slot.started.has_value()) continue;
    facts_.clock_uncertainty_ns = std::max(facts_.clock_uncertainty_ns.value_or(0),
                                           UncertaintyAt(*slot.clock, plan_.start_monotonic_ns));
    // As unsigned numbers, relative to the plan: clocks may have any value.
    const auto behind = static_cast<int64_t>(slot.started->start_monotonic_ns() -
                                             static_cast<uint64_t>(slot.clock->offset_ns) -
                                             plan_.start_monotonic_ns);
    first = starts == 0 ? behind : std::min(first, behind);
    last = starts == 0 ? behind : std::max(last, behind);
    ++starts;
  }
  if (starts > 1) facts_.spread_ns = static_cast<uint64_t>(last) - static_cast<uint64_t>(first);
}

}  // namespace jobscope
