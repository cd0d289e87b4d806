// SPDX-License-Identifier: Apache-2.0
#include "client/fan_out/common_start.h"

#include <algorithm>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/fan_out/step_plan.h"
#include "common/clock/monotonic.h"

namespace jobscope {
namespace {

// Shortest lead to a step. A worker that is late for an instant begins late; one that is late for a
// step has missed it. Of captures of one worker by steps of 2.7 ms, on two busy cores with a lead
// of 1 ms, 2 of 8 began to watch 3 ms late.
constexpr absl::Duration kMinLeadToStep = absl::Milliseconds(20);

}  // namespace

ArmedWorker ArmedWorkerOf(const Slot& slot) {
  return {slot.endpoint.address, slot.streams, slot.clock,
          slot.lookback_ns,      slot.steps,   slot.steps_seen_ns};
}

absl::Duration CommonStart::ArmRoundTrip(const std::vector<size_t>& members) const {
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

absl::Status CommonStart::Choose(absl::Duration sync_phase, absl::Duration delay,
                                 bool armed_before_steps) {
  clocks_->Combine(roster_);
  std::vector<size_t> members;
  std::vector<ArmedWorker> workers;
  for (size_t i = 0; i < roster_->size(); ++i) {
    if ((*roster_)[i].stage != Stage::kSynced) continue;
    members.push_back(i);
    workers.push_back(ArmedWorkerOf((*roster_)[i]));
  }
  // If few or no workers receive pings: the lead is at least twice the round trip of arming, for
  // all but the slowest tenth.
  const absl::Duration busy = std::max(sync_phase, 4 * ArmRoundTrip(members));
  absl::Duration lead = StartLead(workers, busy);
  if (options_.steps.has_value()) lead = std::max(lead, kMinLeadToStep);
  lead = std::max(lead, delay);
  const uint64_t now_ns = MonotonicNow();
  plan_.start_monotonic_ns = now_ns + DurationNs(lead);
  if (options_.steps.has_value()) {
    StepsWanted wanted = *options_.steps;
    absl::StatusOr<std::optional<StepPlan>> steps =
        ChooseSteps(wanted, workers, plan_.start_monotonic_ns);
    if (absl::IsOutOfRange(steps.status()) && armed_before_steps) {
      // Nobody could ask earlier: the first steps that can be reached instead of none.
      wanted.first.reset();
      steps = ChooseSteps(wanted, workers, plan_.start_monotonic_ns);
    }
    if (!steps.ok()) return steps.status();
    facts_.steps = *steps;
  }
  const uint64_t lookback = GrantedLookback(DurationNs(options_.lookback), workers);
  plan_.zero_monotonic_ns = plan_.start_monotonic_ns - std::min(lookback, plan_.start_monotonic_ns);
  plan_.start_unix_ns = absl::ToUnixNanos(absl::Now()) +
                        static_cast<int64_t>(plan_.start_monotonic_ns - MonotonicNow());
  plan_.zero_unix_ns = plan_.start_unix_ns -
                       static_cast<int64_t>(plan_.start_monotonic_ns - plan_.zero_monotonic_ns);
  plan_.duration = options_.duration;
  plan_.transfer = options_.times.transfer;
  facts_.started = absl::FromUnixNanos(plan_.start_unix_ns);
  if (options_.lookback > absl::ZeroDuration()) facts_.lookback_ns = lookback;
  for (const size_t index : members) Begin(index, plan_);
  return absl::OkStatus();
}

void CommonStart::StartLate(size_t index, absl::Time now) {
  Slot& slot = (*roster_)[index];
  clocks_->CombineLate(&slot);
  // The lead of a single worker: a late one must not start later than necessary.
  absl::Duration lead = StartLead({ArmedWorkerOf(slot)}, absl::ZeroDuration());
  if (options_.steps.has_value()) lead = std::max(lead, kMinLeadToStep);
  StartCall call = plan_;
  const absl::Time planned = SteadyTime(plan_.start_monotonic_ns);
  if (planned < now + lead) {
    const uint64_t behind = DurationNs(now + lead - planned);
    call.start_monotonic_ns += behind;
    call.start_unix_ns += static_cast<int64_t>(behind);
    roster_->Warn(index, absl::StrCat("began ", behind / 1'000'000, " ms after the others"));
  }
  Begin(index, call);
}

void CommonStart::Begin(size_t index, StartCall call) {
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
  // A worker whose clock is unknown records as soon as it receives the call.
  const bool at_once = slot.streams && !slot.clock.has_value();
  const absl::Time start = at_once ? SteadyNow() : SteadyTime(call.start_monotonic_ns);
  roster_->Record(index, start, start + call.duration);
  slot.worker->Start(call);
}

// All workers with steps record the same ones, as far as their counts can be matched; the others
// record for the duration, from the same instant.
void CommonStart::AddSteps(size_t index, StartCall* call) {
  Slot& slot = (*roster_)[index];
  const ArmedWorker worker = ArmedWorkerOf(slot);
  if (!HasSteps(worker)) {
    roster_->Warn(
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
    roster_->Warn(index,
                  absl::StrCat("no worker had begun a step when the others started: recorded "
                               "from its step ",
                               window.first(), " on"));
  } else if (!CanMatch(*facts_.steps, worker)) {
    window = WindowFrom(reachable, options_.steps->count, worker);
    roster_->Warn(index, absl::StrCat("counts its steps differently from the workers that had "
                                      "started: recorded from its step ",
                                      reachable, " on"));
  } else {
    window = WindowOf(*facts_.steps, worker);
    if (facts_.steps->first > options_.steps->first.value_or(INT64_MAX)) {
      roster_->Warn(index, absl::StrCat("step ", *options_.steps->first,
                                        " could not be reached after the job's first step was "
                                        "seen: recorded from step ",
                                        window.first(), " on"));
    }
    if (reachable > window.first()) {
      roster_->Warn(index, absl::StrCat("too late for step ", window.first(),
                                        ": recorded from step ", reachable, " on"));
      window = WindowFrom(reachable, options_.steps->count, worker);
    }
  }
  if (window.by_ordinal()) {
    ++facts_.workers_by_ordinal;
    roster_->Warn(index, absl::StrCat("its step numbers do not rise: recorded its steps ",
                                      window.first(), " to ", window.last(), " by count"));
  }
  slot.window = window;
  call->steps = window;
  call->duration = std::min(options_.max_duration, slot.max_duration);
}

void CommonStart::MeasureSpread() {
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
