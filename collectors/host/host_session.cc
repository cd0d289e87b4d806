// SPDX-License-Identifier: Apache-2.0
//
// From Arm to Start, the step trigger, and Stop. What lies between: host_session_drain.cc.
#include "collectors/host/host_session.h"

#include <algorithm>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/clock/clock.h"
#include "common/xspace/segment/trace_planes.h"
#include "jobscope/detail/ticks.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope::host {
namespace {

// For the last drain, within the 2 s of Stop. 64 MiB of rings take about 0.1 s.
constexpr absl::Duration kLastDrainBudget = absl::Milliseconds(1500);
// For the record of the last step, whose thread may have been preempted within the few instructions
// before it.
constexpr absl::Duration kLastStepWait = absl::Milliseconds(50);

// For the record of the first one's begin, likewise. What is recorded meanwhile stays in the rings:
// at 1 M events/s a third of one. Without it the step lacks the wait before it.
constexpr absl::Duration kFirstStepWait = absl::Milliseconds(10);

// Room in the list of threads at first; it grows with them (ListThreads).
constexpr size_t kListCapacity = 256;

// Lines and accounts, one per thread id; about 300 bytes each. What comes beyond shares one line.
constexpr size_t kMaxLines = 65'536;

}  // namespace

HostSession::HostSession(const Reader* reader, const ArmRequest& request, uint32_t bits,
                         uint64_t past_since_ticks)
    : reader_(reader),
      request_(request),
      bits_(bits),
      past_since_ticks_(past_since_ticks),
      line_for_([this](int64_t tid, const char* name) { return LineFor(tid, name); }),
      full_([this] { return Full(); }),
      buffer_(ThreadDrain::kChunkRecords),
      infos_(kListCapacity) {
  armed_ticks_ = Now();
  // Between Arm and Start lie seconds where a start is commanded for later. Rings that are held all
  // that time would be missed by threads that begin meanwhile, for as long as those live.
  if (request_.lookback > absl::ZeroDuration()) reader_->hold_ended(1);
  holding_ = true;
  NoteTotals();
  (void)NoteThreads(/*oldest=*/false);
  // Not with a lookback: what is recorded ahead would overwrite the past.
  if (request_.ahead <= absl::ZeroDuration() || bits_ == 0 ||
      request_.lookback > absl::ZeroDuration()) {
    return;
  }
  ahead_until_ns_ = MonotonicNs() + static_cast<uint64_t>(absl::ToInt64Nanoseconds(request_.ahead));
  reader_->hold_ended(1);
  reader_->set_mask(JOBSCOPE_HOLDER_SESSION, bits_);
  recording_since_ = Now();
}

HostSession::~HostSession() { LeaveRecorder(); }

void HostSession::LeaveRecorder() {
  if (!holding_) return;
  holding_ = false;
  if (steps_.has_value()) reader_->disarm_trigger();
  reader_->set_mask(JOBSCOPE_HOLDER_SESSION, 0);
  reader_->hold_ended(0);
}

uint64_t HostSession::Now() const { return detail::ReadTicks(reader_->uses_tsc != 0); }

uint64_t HostSession::Ticks(absl::Duration duration) const {
  return static_cast<uint64_t>(absl::ToDoubleSeconds(duration) * ticks_per_second_);
}

ThreadLine* HostSession::LineFor(int64_t tid, const char* name) {
  if (const auto found = lines_.find(tid); found != lines_.end()) {
    found->second->Rename(name);
    return found->second.get();
  }
  std::string_view line_name = name;
  if (lines_.size() >= kMaxLines) {
    tid = 0;
    line_name = "other threads";
  }
  std::unique_ptr<ThreadLine>& line = lines_[tid];
  if (line == nullptr) {
    line = std::make_unique<ThreadLine>(request_.sink, request_.names, encoder_->plane(), tid,
                                        line_name);
  }
  return line.get();
}

void HostSession::NoteTotals() { reader_->totals(&totals_at_start_); }

uint64_t HostSession::NoteThreads(bool oldest) {
  threads_.clear();
  uint64_t listed = 0;
  uint64_t gone = 0;  // serials below the newest one with a ring that nobody has any more
  for (const jobscope_thread_info& info : ListThreads()) {
    ++listed;
    if (info.has_ring == 0) continue;
    gone = info.serial - listed;
    const jobscope_cursor start =
        oldest ? reader_->oldest(info.serial) : jobscope_cursor{info.head_record, info.head_event};
    threads_.push_back(std::make_unique<ThreadDrain>(reader_, info, start));
  }
  return gone;
}

absl::Span<const jobscope_thread_info> HostSession::ListThreads() {
  for (;;) {
    const size_t count = reader_->threads(/*from_serial=*/0, infos_.data(), infos_.size());
    if (count < infos_.size()) return {infos_.data(), count};
    infos_.resize(2 * infos_.size());
  }
}

uint64_t HostSession::OldestTicks() const {
  if (past_since_ticks_ == UINT64_MAX) return UINT64_MAX;
  uint64_t oldest_ticks = past_since_ticks_;
  std::vector<jobscope_record> records(JOBSCOPE_MAX_EVENT_RECORDS);
  for (const auto& thread : threads_) {
    jobscope_cursor cursor = reader_->oldest(thread->serial());
    if (cursor.record <= thread->info().first_record) continue;  // nothing of it was overwritten
    // Records of a thread lie in the order in which they ended: what was overwritten ended before
    // the oldest one held.
    jobscope_read_result result{};
    uint64_t ended = past_since_ticks_;
    for (int tries = 0; tries < 8; ++tries) {
      if (reader_->read(thread->serial(), &cursor, records.data(), records.size(), &result) != 0) {
        break;
      }
      if (result.events > 0) {
        ended = records[0].end_ticks;
        break;
      }
      if (result.more == 0) break;
    }
    oldest_ticks = std::max(oldest_ticks, ended);
  }
  return oldest_ticks;
}

absl::Status HostSession::Start(const StartRequest& request) {
  const ClockSample clocks = SampleClocks(reader_->uses_tsc != 0);
  const uint64_t now = Now();
  reader_->hold_ended(1);
  window_.start_ticks = request.start_ticks;
  window_.end_ticks = request.end_ticks;
  window_.map = request.map;
  steps_ = request.steps;
  keep_zero_ = request.keep_zero;
  ticks_per_second_ = request.map.ticks_per_second();
  const xspace::PlaneKey plane = request_.names->Plane(kHostPlaneName, kHostPlaneId);
  encoder_ =
      std::make_unique<EventEncoder>(reader_, request_.sink, request_.names, plane, &window_);
  watch_ = ClockWatch(window_.map, clocks);
  AppendClock(clocks);
  last_flush_ticks_ = last_drain_ticks_ = last_record_ticks_ = now;

  if (steps_.has_value()) {
    phase_ = Phase::kWaitingForStep;
    NoteTotals();
    (void)NoteThreads(/*oldest=*/false);
    // Steps must be seen by their threads, also where no server keeps their bit set; and the wait
    // before the first one, and its usage.
    constexpr uint32_t kBeforeTheFirst = JOBSCOPE_BIT_INPUT_WAIT | JOBSCOPE_BIT_STEP_USAGE;
    reader_->set_mask(JOBSCOPE_HOLDER_SESSION, JOBSCOPE_BIT_STEP | (bits_ & kBeforeTheFirst));
    if (steps_->by_ordinal) {
      reader_->arm_trigger_by_ordinal(static_cast<uint64_t>(std::max<int64_t>(steps_->first, 0)),
                                      static_cast<uint64_t>(std::max<int64_t>(steps_->last, 0)),
                                      bits_);
    } else {
      reader_->arm_trigger(steps_->first, steps_->last, bits_);
    }
    recording_since_ = Now();
    return absl::OkStatus();
  }
  phase_ = Phase::kRecording;
  if (bits_ == 0) return absl::OkStatus();
  if (request_.lookback > absl::ZeroDuration() && request.start_ticks < armed_ticks_) {
    const uint64_t gone = NoteThreads(/*oldest=*/true);
    // Rings went on turning since Arm: the window begins where they still hold everything.
    const uint64_t oldest = OldestTicks();
    if (oldest != UINT64_MAX) window_.start_ticks = std::max(window_.start_ticks, oldest);
    if (gone > 0) {
      report_.warnings.push_back(
          absl::StrFormat("%d threads ended before the capture and others have taken their rings: "
                          "what they recorded is "
                          "not in the lookback",
                          gone));
    }
  } else if (request.start_ticks > now) {
    NoteTotals();
    (void)NoteThreads(/*oldest=*/false);
  }  // else the window has begun already: since Arm
  reader_->set_mask(JOBSCOPE_HOLDER_SESSION, bits_);
  if (recording_since_ == 0) recording_since_ = Now();
  // A step that began before the bits were on is recorded all the same, because steps always are,
  // but nothing inside of it: it must not look whole. A lookback is asked for with that in mind.
  if (request_.lookback <= absl::ZeroDuration()) {
    window_.start_ticks = std::max(window_.start_ticks, recording_since_);
  }
  Refresh();  // what was recorded since Arm is no rate
  return absl::OkStatus();
}

bool HostSession::FollowTrigger() {
  jobscope_trigger_info trigger{};
  reader_->trigger(&trigger);
  if (phase_ == Phase::kWaitingForStep) {
    if (trigger.state == JOBSCOPE_TRIGGER_ARMED) {
      // What has been recorded until now is not of the session, if the window is still closed after
      // it was looked at.
      Refresh();
      reader_->trigger(&trigger);
      if (trigger.state == JOBSCOPE_TRIGGER_ARMED) {
        NoteTotals();
        for (const auto& thread : threads_) thread->Skip(&buffer_);
        return false;
      }
    }
    if (trigger.state != JOBSCOPE_TRIGGER_OPEN && trigger.state != JOBSCOPE_TRIGGER_CLOSED) {
      return false;
    }
    phase_ = Phase::kRecording;
    window_.first_step_ticks = trigger.open_ticks;
    const uint64_t begin = BeginWithStep(trigger.open_ticks);
    // A step that begins before a commanded zero is clipped: no time in a trace is negative.
    window_.start_ticks = begin;
    if (keep_zero_) {
      window_.start_ticks = std::max(begin, window_.map.zero_ticks());
    } else {
      window_.map = window_.map.WithZero(begin);
    }
    request_.events->OnStepWindowOpened(begin);
  }
  if (!window_closed_ && trigger.state == JOBSCOPE_TRIGGER_CLOSED) {
    window_closed_ = true;
    window_.end_ticks = trigger.close_ticks;
    window_.over = true;
    request_.events->OnStepWindowClosed(trigger.close_ticks);
  }
  return bits_ != 0;
}

uint64_t HostSession::BeginWithStep(uint64_t step_ticks) {
  if (bits_ == 0) return step_ticks;
  const uint64_t deadline = Now() + Ticks(kFirstStepWait);
  while (true) {
    Refresh();
    for (const auto& thread : threads_) {
      if (thread->finished()) continue;
      const std::optional<uint64_t> begin =
          thread->BeginWithStep(encoder_.get(), &buffer_, step_ticks);
      if (begin.has_value()) return *begin;
    }
    // The step opens the window before its thread publishes the record of its begin.
    if (Now() >= deadline) return step_ticks;
    std::this_thread::yield();
  }
}

absl::Status HostSession::Stop(uint64_t end_ticks) {
  const bool started = phase_ != Phase::kArmed;
  const ClockSample clocks = SampleClocks(reader_->uses_tsc != 0);
  if (started && !ClockHolds(clocks)) end_ticks = std::min(end_ticks, watch_.last_good_ticks());
  const bool recorded =
      phase_ == Phase::kRecording && bits_ != 0 && (clock_jumped_ || Now() >= window_.start_ticks);
  phase_ = Phase::kStopped;
  reader_->set_mask(JOBSCOPE_HOLDER_SESSION, 0);
  if (recorded) {
    reader_->quiesce();
    window_.end_ticks = std::max(std::min(window_.end_ticks, end_ticks), window_.start_ticks);
    window_.over = true;
    // First what is open, then the heads: what ends in between is in the ring, and recognised
    // there.
    Refresh();
    if (!clock_jumped_) SampleOpenScopes();
    Refresh();
    const uint64_t deadline = Now() + Ticks(kLastDrainBudget);
    LossCause cause = LossCause::kOverwritten;
    for (const auto& thread : threads_) {
      if (thread->finished()) continue;
      if (clock_jumped_) thread->LoseRest(LossCause::kClock, line_for_);
      const ThreadDrain::Stopped stopped =
          thread->Drain(encoder_.get(), &buffer_, UINT64_MAX, deadline, full_, line_for_);
      if (stopped == ThreadDrain::Stopped::kFull) cause = LossCause::kStoreFull;
      if (stopped == ThreadDrain::Stopped::kDeadline) cause = LossCause::kDeadline;
      thread->LoseRest(cause, line_for_);
      thread->Finish(encoder_.get());
    }
    if (!clock_jumped_) SampleThreadsWithoutRing();
    encoder_->Finish();
    for (const auto& [tid, line] : lines_) line->Retire();
    encoder_->Flush();
    if (store_full_) full_ticks_ += Now() - full_since_ticks_;
  }
  MakeReport(recorded);
  if (started) {
    AppendClock(clocks);
    if (!AppendLoss(report_, request_.sink)) {
      report_.warnings.push_back("the store had no room for the account of each thread");
    }
  }
  threads_.clear();
  encoder_.reset();
  buffer_ = {};
  LeaveRecorder();
  return absl::OkStatus();
}

void HostSession::SampleOpenScopes() {
  jobscope_trigger_info trigger{};
  if (window_closed_) reader_->trigger(&trigger);
  const uint64_t deadline = Now() + Ticks(kLastStepWait);
  for (const auto& thread : threads_) {
    if (thread->ended() || thread->finished()) continue;
    thread->SampleOpenScopes(line_for_);
    // A step closes the window before it publishes its record: its thread may just be about to.
    while (window_closed_ && thread->IsInStep(trigger.last_step, trigger.close_ticks) &&
           Now() < deadline) {
      std::this_thread::yield();
      thread->SampleOpenScopes(line_for_);
    }
  }
}

void HostSession::SampleThreadsWithoutRing() {
  for (const jobscope_thread_info& info : ListThreads()) {
    if (info.has_ring != 0 || info.ended != 0) continue;
    ThreadDrain thread(reader_, info, jobscope_cursor{0, 0});
    thread.SampleOpenScopes(line_for_);
    thread.Finish(encoder_.get());
  }
}

bool HostSession::ClockHolds(const ClockSample& now) {
  if (reader_->uses_tsc == 0 || watch_.Holds(now)) return true;
  if (!clock_jumped_) request_.events->OnClockJumped(watch_.last_good_ticks());
  clock_jumped_ = true;
  return false;
}

void HostSession::AppendClock(const ClockSample& sample) {
  last_clock_ticks_ = sample.ticks;
  v1::Clock clock;
  clock.set_ticks(sample.ticks);
  clock.set_monotonic_ns(sample.monotonic_ns);
  clock.set_realtime_ns(sample.realtime_ns);
  clock.set_bracket_ticks(sample.bracket_ticks);
  // Without room there is one sample less: nothing depends on any single one.
  (void)request_.sink->Append(xspace::ItemKind::kClock, clock.SerializeAsString());
}

ReportInput HostSession::AccountSoFar(bool recorded) const {
  ReportInput input;
  input.reader = reader_;
  input.lines = &lines_;
  input.recorded = recorded;
  input.totals_at_start = totals_at_start_;
  input.ticks_per_second = ticks_per_second_;
  input.threads_without_ring = threads_without_ring_;
  input.full_after_s = full_after_s_;
  input.full_for_s = static_cast<double>(full_ticks_) / ticks_per_second_;
  return input;
}

void HostSession::MakeReport(bool recorded) {
  if (bits_ == 0) {
    report_.state = "off";
    report_.reason = "host_tracer_level is 0";
    return;
  }
  FillReport(AccountSoFar(recorded), &report_);
  if (recorded && steps_.has_value()) FillStepWindow(*reader_, *steps_, &report_);
}

}  // namespace jobscope::host
