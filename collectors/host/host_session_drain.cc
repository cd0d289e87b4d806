// SPDX-License-Identifier: Apache-2.0
//
// What a session does while it records: which threads there are, when their rings are read, and for
// how long.
#include <algorithm>
#include <cstddef>
#include <memory>

#include "collectors/host/host_report.h"
#include "collectors/host/host_session.h"

namespace jobscope::host {
namespace {

// Between two drains. The shortest costs 0.2 % of a core in wake-ups; the longest is what a thread
// that suddenly records at full speed may find the ring's reader away for. While records come, that
// is short enough for 1 M/s into a ring of the default size, which holds 33 ms of them.
constexpr absl::Duration kShortestPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(20);
constexpr absl::Duration kQuietPause = absl::Milliseconds(100);
// For how long a thread is expected to record again as fast as it did: training steps alternate
// between bursts of scopes and waiting for a device.
constexpr absl::Duration kRateMemory = absl::Seconds(2);
// A sample that is taken in each drain; of three, a thread is hardly ever preempted in all.
constexpr int kClockTries = 3;
// While the first step is waited for, which may take hours: the opening is told late by this, at
// its true time.
constexpr absl::Duration kArmedPause = absl::Milliseconds(10);
// While recording ahead of the command: rings of threads that end are given back this often.
constexpr absl::Duration kAheadPause = absl::Milliseconds(100);
// In an open window of steps: the end of the last one is told this late at most.
constexpr absl::Duration kTriggerPause = absl::Milliseconds(5);
// A ring is to be at most this full when its reader comes.
constexpr uint64_t kRingShare = 4;
// Of the 64 rings of the default cap, this many may belong to threads that have ended since the
// last drain.
constexpr double kHeldRings = 16;
// Within one Drain, which must return within 100 ms, and stands in the way of Stop meanwhile.
constexpr absl::Duration kDrainBudget = absl::Milliseconds(20);
// Events that ended later than this before a Drain wait for the next one, if their ring has room:
// sessions tell their end by a timer, and timers were late by up to 1 ms on a busy machine.
constexpr absl::Duration kHoldBack = absl::Milliseconds(2);
// An open segment of a line waits this long for more.
constexpr absl::Duration kFlushAfter = absl::Milliseconds(250);
constexpr absl::Duration kClockEvery = absl::Seconds(1);
// Between two counts of what is lost so far, which go over all lines.
constexpr absl::Duration kCountEvery = absl::Milliseconds(100);

}  // namespace

void HostSession::Refresh() {
  last_heads_ = 0;
  threads_without_ring_ = 0;
  for (const auto& thread : threads_) thread->listed = false;
  size_t at = 0;
  for (const jobscope_thread_info& info : ListThreads()) {
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
  threads_.erase(std::remove_if(threads_.begin(), threads_.end(),
                                [](const auto& thread) {
                                  if (!thread->listed && !thread->finished()) thread->MarkGone();
                                  return !thread->listed && thread->finished();
                                }),
                 threads_.end());
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

// Nothing is read before the window's begin is known. A thread that ends may have been the only one
// to know of something: once its ring is given back, everything is recorded from then on only.
absl::Duration HostSession::DrainAhead() {
  if (recording_since_ == 0) return absl::InfiniteDuration();
  const uint64_t now_ns = MonotonicNs();
  if (now_ns >= ahead_until_ns_) {
    reader_->set_mask(JOBSCOPE_HOLDER_SESSION, 0);
    reader_->hold_ended(0);
    recording_since_ = 0;
    return absl::InfiniteDuration();
  }
  bool released = false;
  for (const jobscope_thread_info& info : ListThreads()) {
    if (info.ended == 0 || info.has_ring == 0) continue;
    reader_->release(info.serial);
    released = true;
  }
  if (released) {
    NoteTotals();
    (void)NoteThreads(/*oldest=*/false);
    recording_since_ = Now();
  }
  return std::min(kAheadPause, absl::Nanoseconds(static_cast<int64_t>(ahead_until_ns_ - now_ns)));
}

absl::Duration HostSession::Drain() {
  if (phase_ == Phase::kArmed) return DrainAhead();
  if (phase_ != Phase::kRecording && phase_ != Phase::kWaitingForStep) {
    return absl::InfiniteDuration();
  }
  const ClockSample clocks = SampleClocks(reader_->uses_tsc != 0, kClockTries);
  // Whatever ended before `entry` has its time; what comes after a jump has none.
  if (!ClockHolds(clocks)) return absl::InfiniteDuration();
  const uint64_t entry = clocks.ticks;
  if (entry - last_clock_ticks_ >= Ticks(kClockEvery)) AppendClock(clocks);
  // The trigger is read after `entry`: if the window is open then, all that ended before `entry`
  // ended within it.
  if (steps_.has_value()) {
    if (!FollowTrigger()) return phase_ == Phase::kWaitingForStep ? kArmedPause : kTriggerPause;
  } else if (bits_ == 0) {
    return kClockEvery;
  }
  // What nobody can tell the time of is of the window only if it came after its begin.
  if (entry < window_.start_ticks) NoteTotals();
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
    pause_ = std::clamp(2 * pause_, kShortestPause, kQuietPause);
    return pause_;
  }
  if (pause_ == absl::ZeroDuration()) return pause_;  // out of time: go on at once
  const uint64_t memory_ticks = Ticks(kRateMemory);
  const double rate = static_cast<double>(last_heads_) / static_cast<double>(elapsed);
  if (last_heads_ > 0) last_record_ticks_ = entry_ticks;
  if (rate >= peak_rate_ || entry_ticks - peak_ticks_ > memory_ticks) {
    peak_rate_ = rate;
    peak_ticks_ = entry_ticks;
  }
  // Grows slowly, so that one quiet interval does not make a burst wait; shrinks at once.
  const bool quiet = entry_ticks - last_record_ticks_ > memory_ticks;
  absl::Duration next = std::min(2 * pause_, quiet ? kQuietPause : kLongestPause);
  if (peak_rate_ > 0) {
    const double share =
        static_cast<double>(reader_->ring_records) / static_cast<double>(kRingShare);
    next = std::min(next, absl::Seconds(share / peak_rate_ / ticks_per_second_));
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

}  // namespace jobscope::host
