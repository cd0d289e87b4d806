// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/host_session.h"

#include <algorithm>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/clock.h"
#include "common/trace_planes.h"
#include "jobscope/detail/ticks.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope::host {
namespace {

// Between two drains. The shortest costs 0.2 % of a core in wake-ups; the longest is what a thread
// that suddenly records at full speed may find the ring's reader away for.
constexpr absl::Duration kShortestPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(100);
// While the first step is waited for, which may take hours: the opening is told late by this, at
// its true time.
constexpr absl::Duration kArmedPause = absl::Milliseconds(10);
// In an open window of steps: the end of the last one is told this late at most.
constexpr absl::Duration kTriggerPause = absl::Milliseconds(5);
// A ring is to be at most this full when its reader comes.
constexpr uint64_t kRingShare = 4;
// Of the 64 rings of the default cap, this many may belong to threads that have ended since the
// last drain.
constexpr double kHeldRings = 16;
// Within one Drain, which must return within 100 ms, and stands in the way of Stop meanwhile.
constexpr absl::Duration kDrainBudget = absl::Milliseconds(20);
// For the last drain, within the 2 s of Stop. 64 MiB of rings take about 0.1 s.
constexpr absl::Duration kLastDrainBudget = absl::Milliseconds(1500);
// Events that ended later than this before a Drain wait for the next one, if their ring has room:
// sessions tell their end by a timer, and timers were late by up to 1 ms on a busy machine.
constexpr absl::Duration kHoldBack = absl::Milliseconds(2);
// For the record of the last step, whose thread may have been preempted within the few instructions
// before it.
constexpr absl::Duration kLastStepWait = absl::Milliseconds(50);
// An open segment of a line waits this long for more.
constexpr absl::Duration kFlushAfter = absl::Milliseconds(250);
constexpr absl::Duration kClockEvery = absl::Seconds(1);
// Between two counts of what is lost so far, which go over all lines.
constexpr absl::Duration kCountEvery = absl::Milliseconds(100);

// Threads listed at a time.
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
  // Between Arm and Start lie seconds where a start is commanded for later. Rings that are held all
  // that time would be missed by threads that begin meanwhile, for as long as those live.
  if (request_.lookback > absl::ZeroDuration()) reader_->hold_ended(1);
  holding_ = true;
  NoteTotals();
  NoteThreads(/*oldest=*/false);
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

void HostSession::NoteThreads(bool oldest) {
  threads_.clear();
  uint64_t from = 0;
  while (true) {
    const size_t count = reader_->threads(from, infos_.data(), infos_.size());
    for (size_t i = 0; i < count; ++i) {
      const jobscope_thread_info& info = infos_[i];
      from = info.serial + 1;
      if (info.has_ring == 0) continue;
      const jobscope_cursor start = oldest ? reader_->oldest(info.serial)
                                           : jobscope_cursor{info.head_record, info.head_event};
      threads_.push_back(std::make_unique<ThreadDrain>(reader_, info, start));
    }
    if (count < infos_.size()) return;
  }
}

void HostSession::Refresh() {
  last_heads_ = 0;
  threads_without_ring_ = 0;
  for (const auto& thread : threads_) thread->listed = false;
  size_t at = 0;
  uint64_t from = 0;
  while (true) {
    const size_t count = reader_->threads(from, infos_.data(), infos_.size());
    for (size_t i = 0; i < count; ++i) {
      const jobscope_thread_info& info = infos_[i];
      from = info.serial + 1;
      if (info.has_ring == 0) {
        ++threads_without_ring_;
        continue;
      }
      while (at < threads_.size() && threads_[at]->serial() < info.serial) ++at;
      uint64_t before = info.first_record;
      if (at < threads_.size() && threads_[at]->serial() == info.serial) {
        before = threads_[at]->info().head_record;
      } else {
        // New: all of it is of the session, also what the handler of a signal refused.
        jobscope_thread_info fresh = info;
        fresh.reentered = 0;
        threads_.insert(threads_.begin() + static_cast<std::ptrdiff_t>(at),
                        std::make_unique<ThreadDrain>(
                            reader_, fresh, jobscope_cursor{info.first_record, info.first_event}));
      }
      threads_[at]->listed = true;
      if (threads_[at]->finished()) continue;
      threads_[at]->Update(info, line_for_);
      last_heads_ = std::max(last_heads_, info.head_record - std::min(before, info.head_record));
    }
    if (count < infos_.size()) break;
  }
  threads_.erase(std::remove_if(threads_.begin(), threads_.end(),
                                [](const auto& thread) {
                                  if (!thread->listed && !thread->finished()) thread->MarkGone();
                                  return !thread->listed && thread->finished();
                                }),
                 threads_.end());
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
  AppendClock(now);
  last_flush_ticks_ = last_drain_ticks_ = now;
  pause_ = kShortestPause;

  if (steps_.has_value()) {
    phase_ = Phase::kWaitingForStep;
    NoteTotals();
    NoteThreads(/*oldest=*/false);
    // Steps must be seen by their threads, also where no server keeps their bit set.
    reader_->set_mask(JOBSCOPE_HOLDER_SESSION, JOBSCOPE_BIT_STEP);
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
  if (request_.lookback > absl::ZeroDuration() && request.start_ticks < now) {
    NoteThreads(/*oldest=*/true);
    // Rings went on turning since Arm: the window begins where they still hold everything.
    const uint64_t oldest = OldestTicks();
    if (oldest != UINT64_MAX) window_.start_ticks = std::max(window_.start_ticks, oldest);
    const uint64_t serials = threads_.empty() ? 0 : threads_.back()->serial();
    if (serials > threads_.size()) {
      report_.warnings.push_back(
          absl::StrFormat("%d threads ended before the capture and others have taken their rings: "
                          "what they recorded is "
                          "not in the lookback",
                          serials - threads_.size()));
    }
  } else if (request.start_ticks > now) {
    NoteTotals();
    NoteThreads(/*oldest=*/false);
  }  // else the window has begun already: since Arm
  reader_->set_mask(JOBSCOPE_HOLDER_SESSION, bits_);
  recording_since_ = Now();
  // A step that began before the bits were on is recorded all the same, because steps always are,
  // but nothing inside of it: it must not look whole. A lookback is asked for with that in mind.
  if (request_.lookback <= absl::ZeroDuration()) {
    window_.start_ticks = std::max(window_.start_ticks, recording_since_);
  }
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
        for (const auto& thread : threads_) thread->Skip();
        return false;
      }
    }
    if (trigger.state != JOBSCOPE_TRIGGER_OPEN && trigger.state != JOBSCOPE_TRIGGER_CLOSED) {
      return false;
    }
    phase_ = Phase::kRecording;
    // A step that begins before a commanded zero is clipped: no time in a trace is negative.
    window_.start_ticks = trigger.open_ticks;
    if (keep_zero_) {
      window_.start_ticks = std::max(trigger.open_ticks, window_.map.zero_ticks());
    } else {
      window_.map = window_.map.WithZero(trigger.open_ticks);
    }
    request_.events->OnStepWindowOpened(trigger.open_ticks);
  }
  if (!window_closed_ && trigger.state == JOBSCOPE_TRIGGER_CLOSED) {
    window_closed_ = true;
    window_.end_ticks = trigger.close_ticks;
    window_.over = true;
    request_.events->OnStepWindowClosed(trigger.close_ticks);
  }
  return bits_ != 0;
}

bool HostSession::Full() {
  const bool full = request_.sink->Full();
  if (full == store_full_) return full;
  store_full_ = full;
  const uint64_t now = Now();
  if (full) {
    full_since_ticks_ = now;
    if (!full_after_s_.has_value()) {
      full_after_s_ = static_cast<double>(window_.map.ToPs(now)) * 1e-12;
    }
  } else {
    full_ticks_ += now - full_since_ticks_;
  }
  return full;
}

absl::Duration HostSession::Drain() {
  if (phase_ != Phase::kRecording && phase_ != Phase::kWaitingForStep) {
    return absl::InfiniteDuration();
  }
  const uint64_t entry = Now();
  if (entry - last_clock_ticks_ >= Ticks(kClockEvery)) AppendClock(entry);
  // The trigger is read after `entry`: if the window is open then, all that ended before `entry`
  // ended within it.
  if (steps_.has_value()) {
    if (!FollowTrigger()) return phase_ == Phase::kWaitingForStep ? kArmedPause : kTriggerPause;
  } else if (bits_ == 0) {
    return kClockEvery;
  }
  Refresh();
  (void)Full();  // looked at again, also where no thread has anything
  DrainThreads(entry);
  FinishEnded();
  encoder_->PlaceDone();
  // What lies in open segments is safe there until the store has room again.
  if (!store_full_) FlushOldLines(entry);
  if (entry - last_count_ticks_ >= Ticks(kCountEvery)) {
    last_count_ticks_ = entry;
    lost_so_far_ = host::LostSoFar(AccountSoFar(/*recorded=*/true));
  }
  const absl::Duration next = NextDrain(entry);
  return steps_.has_value() && !window_closed_ ? std::min(next, kTriggerPause) : next;
}

void HostSession::DrainThreads(uint64_t entry_ticks) {
  const uint64_t deadline = entry_ticks + Ticks(kDrainBudget);
  const uint64_t held_ticks = entry_ticks - std::min(entry_ticks, Ticks(kHoldBack));
  pause_ = std::max(pause_, kShortestPause);
  // Begins where the last Drain ran out of time, so that no thread waits for another one for ever.
  for (size_t i = 0; i < threads_.size(); ++i) {
    ThreadDrain& thread = *threads_[(next_thread_ + i) % threads_.size()];
    if (thread.finished()) continue;
    const bool room = thread.backlog() <= reader_->ring_records / kRingShare;
    const uint64_t hold = window_closed_ || thread.ended() || !room ? entry_ticks : held_ticks;
    const ThreadDrain::Stopped stopped =
        thread.Drain(encoder_.get(), &buffer_, hold, deadline, full_, line_for_);
    if (stopped == ThreadDrain::Stopped::kFull) return;
    if (stopped == ThreadDrain::Stopped::kDeadline) {
      next_thread_ = (next_thread_ + i) % threads_.size();
      pause_ = absl::ZeroDuration();
      return;
    }
  }
}

void HostSession::FinishEnded() {
  last_finished_ = 0;
  for (const auto& thread : threads_) {
    if (!thread->ended() || thread->finished()) continue;
    // Nothing is read while the store is full; a ring that waits would only be missed by another
    // thread.
    if (store_full_) thread->LoseRest(LossCause::kStoreFull, line_for_);
    if (!thread->drained()) continue;
    ++last_finished_;
    thread->Finish(encoder_.get());
    if (thread->line() != nullptr) thread->line()->Retire();
  }
}

void HostSession::FlushOldLines(uint64_t now_ticks) {
  if (now_ticks - last_flush_ticks_ < Ticks(kFlushAfter)) return;
  last_flush_ticks_ = now_ticks;
  for (const auto& thread : threads_) {
    if (thread->line() != nullptr) thread->line()->Flush();
  }
  encoder_->Flush();
}

absl::Duration HostSession::NextDrain(uint64_t entry_ticks) {
  const uint64_t elapsed = std::max<uint64_t>(1, entry_ticks - last_drain_ticks_);
  last_drain_ticks_ = entry_ticks;
  if (store_full_) {
    // Room may come back at once, where a peer reads fast, or never.
    pause_ = std::clamp(2 * pause_, kShortestPause, kLongestPause);
    return pause_;
  }
  if (pause_ == absl::ZeroDuration()) return pause_;  // out of time: go on at once
  // Grows slowly, so that one quiet interval does not make a burst wait; shrinks at once.
  absl::Duration next = std::min(2 * pause_, kLongestPause);
  if (last_heads_ > 0) {
    const double ticks_per_record = static_cast<double>(elapsed) / static_cast<double>(last_heads_);
    const double share =
        static_cast<double>(reader_->ring_records) / static_cast<double>(kRingShare);
    next = std::min(next, absl::Seconds(ticks_per_record * share / ticks_per_second_));
  }
  if (last_finished_ > 0) {
    // Rings of threads that end are held for us: at this rate of them, so many are missed by
    // threads that begin.
    const double ticks_per_ring =
        static_cast<double>(elapsed) / static_cast<double>(last_finished_);
    next = std::min(next, absl::Seconds(ticks_per_ring * kHeldRings / ticks_per_second_));
  }
  pause_ = std::max(next, kShortestPause);
  return pause_;
}

absl::Status HostSession::Stop(uint64_t end_ticks) {
  const bool recorded = phase_ == Phase::kRecording && bits_ != 0;
  const bool started = phase_ != Phase::kArmed;
  phase_ = Phase::kStopped;
  reader_->set_mask(JOBSCOPE_HOLDER_SESSION, 0);
  if (recorded) {
    reader_->quiesce();
    window_.end_ticks = std::max(std::min(window_.end_ticks, end_ticks), window_.start_ticks);
    window_.over = true;
    // First what is open, then the heads: what ends in between is in the ring, and recognised
    // there.
    Refresh();
    SampleOpenScopes();
    Refresh();
    const uint64_t deadline = Now() + Ticks(kLastDrainBudget);
    LossCause cause = LossCause::kOverwritten;
    for (const auto& thread : threads_) {
      if (thread->finished()) continue;
      const ThreadDrain::Stopped stopped =
          thread->Drain(encoder_.get(), &buffer_, UINT64_MAX, deadline, full_, line_for_);
      if (stopped == ThreadDrain::Stopped::kFull) cause = LossCause::kStoreFull;
      if (stopped == ThreadDrain::Stopped::kDeadline) cause = LossCause::kDeadline;
      thread->LoseRest(cause, line_for_);
      thread->Finish(encoder_.get());
    }
    encoder_->Finish();
    for (const auto& [tid, line] : lines_) line->Retire();
    encoder_->Flush();
    if (store_full_) full_ticks_ += Now() - full_since_ticks_;
  }
  MakeReport(recorded);
  if (started) {
    AppendClock(Now());
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

void HostSession::AppendClock(uint64_t now_ticks) {
  last_clock_ticks_ = now_ticks;
  const ClockSample sample = SampleClocks(reader_->uses_tsc != 0);
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
  if (recorded && steps_.has_value()) FillStepWindow(*reader_, steps_->by_ordinal, &report_);
}

}  // namespace jobscope::host
