// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/host_session.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/clock/clock.h"
#include "common/clock/monotonic.h"
#include "common/xspace/segment/trace_planes.h"

namespace jobscope::host {
namespace {

// Limit of one Drain, which must return within 100 ms, and delays Stop meanwhile.
constexpr absl::Duration kDrainBudget = absl::Milliseconds(20);
// Time limit for the last drain, within the 2 s of Stop. 64 MiB of rings take about 0.1 s.
constexpr absl::Duration kLastDrainBudget = absl::Milliseconds(1500);
// Time limit for the record of the last step, whose thread may be preempted just before writing it.
constexpr absl::Duration kLastStepWait = absl::Milliseconds(50);
// Events that ended less than this before a Drain wait for the next one if their ring has space: a
// timer ends sessions, and timers were up to 1 ms late on a busy machine.
constexpr absl::Duration kHoldBack = absl::Milliseconds(2);
// Bracketed readings per drain; a thread is rarely preempted in all of three.
constexpr int kClockTries = 3;
constexpr absl::Duration kClockEvery = absl::Seconds(1);
// Interval while waiting for the first step, maybe for hours: the opening is noticed late by at
// most this, but recorded with its true time.
constexpr absl::Duration kArmedPause = absl::Milliseconds(10);
// Interval at which rings of ended threads are released while recording ahead of the command.
constexpr absl::Duration kAheadPause = absl::Milliseconds(100);
// Interval in an open window of steps: bounds how late the end of the last step is noticed.
constexpr absl::Duration kTriggerPause = absl::Milliseconds(5);
// How long the open segment of a line waits for more events.
constexpr absl::Duration kFlushAfter = absl::Milliseconds(250);
// Interval between counts of the losses so far, which visit all lines.
constexpr absl::Duration kCountEvery = absl::Milliseconds(100);

}  // namespace

HostSession::HostSession(const Reader* reader, const ArmRequest& request, uint32_t bits,
                         uint64_t past_since_ticks)
    : reader_(reader),
      request_(request),
      past_since_ticks_(past_since_ticks),
      ticks_(reader->uses_tsc != 0),
      recorder_(reader, &ticks_, bits),
      clocks_(reader->uses_tsc != 0, request.events, request.sink),
      full_(request.sink),
      lines_(request.sink, request.names),
      threads_(
          reader, [this](int64_t tid, const char* name) { return lines_.For(tid, name); },
          [this] { return full_.Look(ticks_.Now()); }) {}

void HostSession::Arm() {
  armed_ticks_ = ticks_.Now();
  // If a start is commanded for later, seconds pass between Arm and Start. Holding rings that long
  // would deny them to threads that start meanwhile, for their whole lifetime.
  const bool looks_back = request_.lookback > absl::ZeroDuration();
  if (recorder_.bits() != 0 && looks_back) recorder_.HoldRings();
  BeginAtHeads();
  // Not with a lookback: records made ahead would overwrite the past.
  if (recorder_.bits() == 0 || looks_back || request_.ahead <= absl::ZeroDuration()) return;
  recorder_.RecordAhead(request_.ahead);
}

HostSession::~HostSession() { LeaveRecorder(); }

void HostSession::LeaveRecorder() {
  if (steps_.has_value()) steps_->Disarm();
  steps_.reset();
  recorder_.Release();
}

void HostSession::BeginAtHeads() {
  NoteTotals();
  (void)threads_.BeginAnew(/*oldest=*/false);
}

uint64_t HostSession::OldestTicks() const {
  return past_since_ticks_ == UINT64_MAX ? UINT64_MAX : threads_.OldestTicks(past_since_ticks_);
}

absl::Status HostSession::Start(const StartRequest& request) {
  const ClockSample clocks = SampleClocks(ticks_.uses_tsc());
  const uint64_t now = ticks_.Now();
  // Without bits, nothing would read and release the rings.
  if (recorder_.bits() != 0) recorder_.HoldRings();
  window_.start_ticks = request.start_ticks;
  window_.end_ticks = request.end_ticks;
  window_.map = request.map;
  ticks_.SetRate(request.map.ticks_per_second());
  const xspace::PlaneKey plane = request_.names->Plane(kHostPlaneName, kHostPlaneId);
  lines_.SetPlane(plane);
  encoder_ =
      std::make_unique<EventEncoder>(reader_, request_.sink, request_.names, plane, &window_);
  clocks_.Begin(window_.map, clocks);
  pace_.Begin(now, request.map.ticks_per_second(), reader_->ring_records);
  last_flush_ticks_ = now;

  if (request.steps.has_value()) {
    phase_ = Phase::kWaitingForStep;
    BeginAtHeads();
    steps_.emplace(reader_, *request.steps, recorder_.bits(), request.keep_zero);
    steps_->Arm();
    recorder_.BeginAnew();
    return absl::OkStatus();
  }
  phase_ = Phase::kRecording;
  if (recorder_.bits() == 0) return absl::OkStatus();
  if (request_.lookback > absl::ZeroDuration() && request.start_ticks < armed_ticks_) {
    const uint64_t gone = threads_.BeginAnew(/*oldest=*/true);
    // Rings continued to overwrite records since Arm: the window begins where they still hold
    // everything.
    const uint64_t oldest = OldestTicks();
    if (oldest != UINT64_MAX) window_.start_ticks = std::max(window_.start_ticks, oldest);
    if (gone > 0) {
      report_.warnings.push_back(
          absl::StrFormat("%d threads ended before the capture and others have taken their rings: "
                          "what they recorded is not in the lookback",
                          gone));
    }
  } else if (request.start_ticks > now) {
    BeginAtHeads();
  }  // otherwise the window began at Arm
  recorder_.Record();
  // A step that began before the bits were set is recorded, because steps always are, but nothing
  // inside of it: it must not look whole. A lookback accepts this.
  if (request_.lookback <= absl::ZeroDuration()) {
    window_.start_ticks = std::max(window_.start_ticks, recorder_.since_ticks());
  }
  threads_.Refresh();  // records since Arm are no rate
  return absl::OkStatus();
}

// Nothing is read before the window's begin is known. An ended thread may be the only one with some
// event: once its ring is released, recording counts as complete only from then on.
absl::Duration HostSession::DrainAhead() {
  if (recorder_.since_ticks() == 0) return absl::InfiniteDuration();
  const absl::Duration left = recorder_.AheadLeft();
  if (left <= absl::ZeroDuration()) {
    recorder_.Release();
    return absl::InfiniteDuration();
  }
  if (threads_.ReleaseEnded()) {
    BeginAtHeads();
    recorder_.BeginAnew();
  }
  return std::min(kAheadPause, left);
}

bool HostSession::FollowSteps() {
  switch (steps_->Follow(ticks_, &threads_, encoder_.get(), &window_, request_.events)) {
    case StepWindow::State::kBefore:
      NoteTotals();
      threads_.SkipAll();
      return false;
    case StepWindow::State::kUnarmed:
      return false;
    case StepWindow::State::kOpen:
    case StepWindow::State::kClosed:
      break;
  }
  phase_ = Phase::kRecording;
  return recorder_.bits() != 0;
}

absl::Duration HostSession::Drain() {
  if (phase_ == Phase::kArmed) return DrainAhead();
  if (phase_ == Phase::kStopped) return absl::InfiniteDuration();
  const ClockSample clocks = SampleClocks(ticks_.uses_tsc(), kClockTries);
  // Events that ended before `entry` have valid times; events after a jump have none.
  if (!clocks_.IsMapValid(clocks)) return absl::InfiniteDuration();
  const uint64_t entry = clocks.ticks;
  if (entry - clocks_.appended_ticks() >= ticks_.Ticks(kClockEvery)) clocks_.Append(clocks);
  // The trigger is read after `entry`: if the window is open then, everything that ended before
  // `entry` ended within it.
  if (steps_.has_value()) {
    if (!FollowSteps()) return phase_ == Phase::kWaitingForStep ? kArmedPause : kTriggerPause;
  } else if (recorder_.bits() == 0) {
    return kClockEvery;
  }
  const bool closed = steps_.has_value() && steps_->state() == StepWindow::State::kClosed;
  // Events without a known time belong to the window only if they came after its begin.
  if (entry < window_.start_ticks) NoteTotals();
  threads_.Refresh();
  (void)full_.Look(ticks_.Now());  // also if no thread has events
  SessionThreads::Pass pass;
  pass.encoder = encoder_.get();
  pass.entry_ticks = entry;
  pass.held_ticks = ticks_.Before(entry, kHoldBack);
  pass.deadline_ticks = entry + ticks_.Ticks(kDrainBudget);
  pass.hold = !closed;
  DrainFindings found;
  found.out_of_time = !threads_.Read(pass);
  found.busiest_records = threads_.busiest_records();
  found.ended_threads = threads_.FinishEnded(encoder_.get(), full_.full());
  found.store_full = full_.full();
  encoder_->PlaceDone();
  // Open segments are safe until the store has space again.
  if (!full_.full()) FlushOldLines(entry);
  CountLost(entry);
  const absl::Duration next = pace_.Next(entry, found);
  return steps_.has_value() && !closed ? std::min(next, kTriggerPause) : next;
}

void HostSession::FlushOldLines(uint64_t now_ticks) {
  if (now_ticks - last_flush_ticks_ < ticks_.Ticks(kFlushAfter)) return;
  last_flush_ticks_ = now_ticks;
  threads_.FlushLines();
  encoder_->Flush();
}

void HostSession::CountLost(uint64_t now_ticks) {
  if (now_ticks - last_count_ticks_ < ticks_.Ticks(kCountEvery)) return;
  last_count_ticks_ = now_ticks;
  lost_so_far_ = host::LostSoFar(AccountSoFar(/*recorded=*/true));
}

absl::Status HostSession::Stop(uint64_t end_ticks) {
  const bool started = phase_ != Phase::kArmed;
  const ClockSample clocks = SampleClocks(ticks_.uses_tsc());
  if (started && !clocks_.IsMapValid(clocks))
    end_ticks = std::min(end_ticks, clocks_.last_good_ticks());
  const bool recorded = phase_ == Phase::kRecording && recorder_.bits() != 0 &&
                        (clocks_.jumped() || ticks_.Now() >= window_.start_ticks);
  phase_ = Phase::kStopped;
  recorder_.StopRecording();
  if (recorded) {
    reader_->quiesce();
    window_.end_ticks = std::max(std::min(window_.end_ticks, end_ticks), window_.start_ticks);
    window_.over = true;
    DrainToEnd();
  }
  MakeReport(recorded);
  if (started) {
    clocks_.Append(clocks);
    if (!AppendLoss(report_, request_.sink)) {
      report_.warnings.push_back("the store had no room for the account of each thread");
    }
  }
  threads_.Clear();
  encoder_.reset();
  LeaveRecorder();
  return absl::OkStatus();
}

void HostSession::DrainToEnd() {
  // First the open scopes, then the heads: what ends in between is in the ring and recognised
  // there.
  threads_.Refresh();
  if (!clocks_.jumped()) SampleOpenScopes();
  threads_.Refresh();
  threads_.FinishAll(encoder_.get(), ticks_.Now() + ticks_.Ticks(kLastDrainBudget),
                     clocks_.jumped());
  if (!clocks_.jumped()) threads_.SampleWithoutRing(encoder_.get());
  encoder_->Finish();
  lines_.RetireAll();
  encoder_->Flush();
  full_.End(ticks_.Now());
}

void HostSession::SampleOpenScopes() {
  const uint64_t deadline = ticks_.Now() + ticks_.Ticks(kLastStepWait);
  // A step closes the window before it publishes its record, which may be imminent.
  threads_.SampleOpenScopes([&](const ThreadDrain& thread) {
    return steps_.has_value() && steps_->IsClosedBy(thread) && ticks_.Now() < deadline;
  });
}

ReportInput HostSession::AccountSoFar(bool recorded) const {
  ReportInput input;
  input.reader = reader_;
  input.lines = &lines_.lines();
  input.recorded = recorded;
  input.events_without_a_name = encoder_ != nullptr && encoder_->has_events_without_a_name();
  input.totals_at_start = totals_at_start_;
  input.ticks_per_second = ticks_.ticks_per_second();
  input.threads_without_ring = threads_.without_ring();
  if (const std::optional<uint64_t> first = full_.first_ticks(); first.has_value()) {
    input.full_after_s = static_cast<double>(window_.map.ToPs(*first)) * 1e-12;
  }
  input.full_for_s = static_cast<double>(full_.total_ticks()) / ticks_.ticks_per_second();
  return input;
}

void HostSession::MakeReport(bool recorded) {
  if (recorder_.bits() == 0) {
    report_.state = CollectorState::kOff;
    report_.reason = "host_tracer_level is 0";
    return;
  }
  FillReport(AccountSoFar(recorded), &report_);
  if (recorded && steps_.has_value()) FillStepWindow(*reader_, steps_->steps(), &report_);
}

}  // namespace jobscope::host
