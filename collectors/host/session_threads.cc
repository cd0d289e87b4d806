// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/session_threads.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "collectors/host/drain_pace.h"

namespace jobscope::host {
namespace {

// Initial size of the list of threads, which grows as needed.
constexpr size_t kListCapacity = 256;

}  // namespace

SessionThreads::SessionThreads(const Reader* reader, ThreadDrain::LineFor line_for,
                               std::function<bool()> full)
    : reader_(reader),
      line_for_(std::move(line_for)),
      full_(std::move(full)),
      infos_(kListCapacity),
      buffer_(ThreadDrain::kChunkRecords) {}

absl::Span<const jobscope_thread_info> SessionThreads::List() {
  for (;;) {
    const size_t count = reader_->threads(/*from_serial=*/0, infos_.data(), infos_.size());
    if (count < infos_.size()) return {infos_.data(), count};
    infos_.resize(2 * infos_.size());
  }
}

uint64_t SessionThreads::BeginAnew(bool oldest) {
  threads_.clear();
  uint64_t listed = 0;
  uint64_t gone = 0;  // serials below the newest one with a ring that are no longer listed
  for (const jobscope_thread_info& info : List()) {
    ++listed;
    if (info.has_ring == 0) continue;
    gone = info.serial - listed;
    const jobscope_cursor start =
        oldest ? reader_->oldest(info.serial) : jobscope_cursor{info.head_record, info.head_event};
    threads_.push_back(std::make_unique<ThreadDrain>(reader_, info, start));
  }
  return gone;
}

void SessionThreads::Refresh() {
  busiest_records_ = 0;
  without_ring_ = 0;
  for (const auto& thread : threads_) thread->listed = false;
  size_t at = 0;
  for (const jobscope_thread_info& info : List()) {
    if (info.has_ring == 0) {
      ++without_ring_;
      continue;
    }
    while (at < threads_.size() && threads_[at]->serial() < info.serial) ++at;
    uint64_t before = info.first_record;
    if (at < threads_.size() && threads_[at]->serial() == info.serial) {
      before = threads_[at]->info().head_record;
    } else {
      // New: all of it belongs to the session, including what signal handlers were refused.
      jobscope_thread_info fresh = info;
      fresh.reentered = 0;
      threads_.insert(threads_.begin() + static_cast<std::ptrdiff_t>(at),
                      std::make_unique<ThreadDrain>(
                          reader_, fresh, jobscope_cursor{info.first_record, info.first_event}));
    }
    threads_[at]->listed = true;
    if (threads_[at]->finished()) continue;
    threads_[at]->Update(info);
    busiest_records_ =
        std::max(busiest_records_, info.head_record - std::min(before, info.head_record));
  }
  threads_.erase(std::remove_if(threads_.begin(), threads_.end(),
                                [](const auto& thread) {
                                  if (!thread->listed && !thread->finished()) thread->MarkGone();
                                  return !thread->listed && thread->finished();
                                }),
                 threads_.end());
}

uint64_t SessionThreads::OldestTicks(uint64_t since_ticks) const {
  uint64_t oldest_ticks = since_ticks;
  std::vector<jobscope_record> records(JOBSCOPE_MAX_EVENT_RECORDS);
  for (const auto& thread : threads_) {
    jobscope_cursor cursor = reader_->oldest(thread->serial());
    if (cursor.record <= thread->info().first_record) continue;  // nothing was overwritten
    // A thread's records are in the order of their ends: what was overwritten ended before the
    // oldest one held.
    jobscope_read_result result{};
    uint64_t ended = since_ticks;
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

void SessionThreads::Clear() {
  threads_.clear();
  buffer_ = {};
}

bool SessionThreads::ReleaseEnded() {
  bool released = false;
  for (const jobscope_thread_info& info : List()) {
    if (info.ended == 0 || info.has_ring == 0) continue;
    reader_->release(info.serial);
    released = true;
  }
  return released;
}

void SessionThreads::SkipAll() {
  for (const auto& thread : threads_) thread->Skip(&buffer_);
}

std::optional<uint64_t> SessionThreads::BeginWithStep(EventEncoder* encoder, uint64_t step_ticks) {
  for (const auto& thread : threads_) {
    if (thread->finished()) continue;
    const std::optional<uint64_t> begin = thread->BeginWithStep(encoder, &buffer_, step_ticks);
    if (begin.has_value()) return begin;
  }
  return std::nullopt;
}

bool SessionThreads::Read(const Pass& pass) {
  for (size_t i = 0; i < threads_.size(); ++i) {
    // Begins where the last pass ran out of time, so that no thread starves.
    ThreadDrain& thread = *threads_[(next_ + i) % threads_.size()];
    if (thread.finished()) continue;
    const bool room = thread.backlog() <= reader_->ring_records / DrainPace::kRingShare;
    const uint64_t until =
        pass.hold && !thread.ended() && room ? pass.held_ticks : pass.entry_ticks;
    const ThreadDrain::Stopped stopped =
        thread.Drain(pass.encoder, &buffer_, until, pass.deadline_ticks, full_, line_for_);
    if (stopped == ThreadDrain::Stopped::kFull) return true;
    if (stopped == ThreadDrain::Stopped::kDeadline) {
      next_ = (next_ + i) % threads_.size();
      return false;
    }
  }
  return true;
}

uint64_t SessionThreads::FinishEnded(EventEncoder* encoder, bool store_full) {
  uint64_t finished = 0;
  for (const auto& thread : threads_) {
    if (!thread->ended() || thread->finished()) continue;
    // Nothing is read while the store is full; an ended thread's waiting ring would only be denied
    // to others.
    if (store_full) thread->LoseRest(LossCause::kStoreFull, line_for_);
    if (!thread->drained()) continue;
    ++finished;
    thread->Finish(encoder, line_for_);
    if (thread->line() != nullptr) thread->line()->Retire();
  }
  return finished;
}

void SessionThreads::FinishAll(EventEncoder* encoder, uint64_t deadline_ticks, bool clock_jumped) {
  LossCause cause = LossCause::kOverwritten;
  for (const auto& thread : threads_) {
    if (thread->finished()) continue;
    if (clock_jumped) thread->LoseRest(LossCause::kClock, line_for_);
    const ThreadDrain::Stopped stopped =
        thread->Drain(encoder, &buffer_, UINT64_MAX, deadline_ticks, full_, line_for_);
    if (stopped == ThreadDrain::Stopped::kFull) cause = LossCause::kStoreFull;
    if (stopped == ThreadDrain::Stopped::kDeadline) cause = LossCause::kDeadline;
    thread->LoseRest(cause, line_for_);
    thread->Finish(encoder, line_for_);
  }
}

void SessionThreads::SampleOpenScopes(const std::function<bool(const ThreadDrain&)>& again) {
  for (const auto& thread : threads_) {
    if (thread->ended() || thread->finished()) continue;
    thread->SampleOpenScopes(line_for_);
    while (again(*thread)) {
      std::this_thread::yield();
      thread->SampleOpenScopes(line_for_);
    }
  }
}

void SessionThreads::SampleWithoutRing(EventEncoder* encoder) {
  for (const jobscope_thread_info& info : List()) {
    if (info.has_ring != 0 || info.ended != 0) continue;
    ThreadDrain thread(reader_, info, jobscope_cursor{0, 0});
    thread.SampleOpenScopes(line_for_);
    thread.Finish(encoder, line_for_);
  }
}

void SessionThreads::FlushLines() const {
  for (const auto& thread : threads_) {
    if (thread->line() != nullptr) thread->line()->Flush();
  }
}

}  // namespace jobscope::host
