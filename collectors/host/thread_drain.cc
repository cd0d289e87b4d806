// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/thread_drain.h"

#include <algorithm>

#include "jobscope/detail/ticks.h"

namespace jobscope::host {
namespace {

// Depth of the recorder's own stack of open scopes.
constexpr size_t kMaxOpenScopes = 64;

// Tries of an empty read, which occurs when a thread laps the reader; each try copies up to a
// chunk.
constexpr int kMaxEmptyReads = 8;

}  // namespace

ThreadDrain::ThreadDrain(const Reader* reader, const jobscope_thread_info& info,
                         jobscope_cursor start)
    : reader_(reader), info_(info), cursor_(start), last_step_(start), reentered_(info.reentered) {}

ThreadLine* ThreadDrain::Line(const LineFor& line_for) {
  if (state_.line == nullptr) state_.line = line_for(info_.tid, info_.name);
  return state_.line;
}

void ThreadDrain::Update(const jobscope_thread_info& info) {
  info_ = info;
  if (state_.line != nullptr && state_.line->tid() == info_.tid) state_.line->Rename(info_.name);
}

void ThreadDrain::CountReentered(const LineFor& line_for) {
  if (info_.reentered <= reentered_) return;
  Account& account = Line(line_for)->account;
  account.attempted += info_.reentered - reentered_;
  account.Lose(LossCause::kReentered, info_.reentered - reentered_);
  reentered_ = info_.reentered;
}

void ThreadDrain::ForEach(
    jobscope_cursor cursor, std::vector<jobscope_record>* buffer,
    const std::function<bool(const jobscope_record&, jobscope_cursor)>& each) const {
  jobscope_read_result result{};
  while (reader_->read(info_.serial, &cursor, buffer->data(), buffer->size(), &result) == 0 &&
         result.events > 0) {
    jobscope_cursor behind{cursor.record - result.records, cursor.event - result.events};
    for (uint64_t at = 0; at < result.records;) {
      const jobscope_record& event = (*buffer)[at];
      const uint64_t size = 1 + JOBSCOPE_FLAGS_CONTINUATIONS(event.flags);
      at += size;
      behind = {behind.record + size, behind.event + 1};
      if (!each(event, behind)) return;
    }
  }
}

void ThreadDrain::Skip(std::vector<jobscope_record>* buffer) {
  const jobscope_cursor head{info_.head_record, info_.head_event};
  if (cursor_.event < head.event) {
    ForEach(cursor_, buffer, [&](const jobscope_record& event, jobscope_cursor behind) {
      if (event.kind == JOBSCOPE_KIND_STEP) last_step_ = behind;
      return behind.event < head.event;
    });
  }
  cursor_ = head;
  reentered_ = info_.reentered;
  if (ended()) {
    reader_->release(info_.serial);
    finished_ = true;
  }
}

std::optional<uint64_t> ThreadDrain::BeginWithStep(EventEncoder* encoder,
                                                   std::vector<jobscope_record>* buffer,
                                                   uint64_t step_ticks) {
  StepBegins steps;
  std::optional<uint64_t> found;
  jobscope_cursor from = last_step_;
  ForEach(last_step_, buffer, [&](const jobscope_record& event, jobscope_cursor behind) {
    encoder->Follow(&steps, event);
    if (event.kind == JOBSCOPE_KIND_STEP && event.end_ticks <= step_ticks) from = behind;
    // An inferred step begins where the previous one ends.
    const bool is_step = event.kind == JOBSCOPE_KIND_STEP_BEGIN || event.kind == JOBSCOPE_KIND_STEP;
    if (is_step && event.end_ticks == step_ticks) found = steps.Of(step_ticks);
    return !found.has_value() && event.end_ticks <= step_ticks;
  });
  if (found.has_value() && *found < step_ticks) cursor_ = from;
  return found;
}

ThreadDrain::Stopped ThreadDrain::Drain(EventEncoder* encoder, std::vector<jobscope_record>* buffer,
                                        uint64_t hold_ticks, uint64_t deadline_ticks,
                                        const std::function<bool()>& full,
                                        const LineFor& line_for) {
  CountReentered(line_for);
  const bool uses_tsc = reader_->uses_tsc != 0;
  int empty_reads = 0;
  while (!drained()) {
    if (full()) return Stopped::kFull;
    if (detail::ReadTicks(uses_tsc) >= deadline_ticks) return Stopped::kDeadline;

    Account& account = Line(line_for)->account;
    const jobscope_cursor before = cursor_;
    jobscope_read_result result{};
    if (reader_->read(info_.serial, &cursor_, buffer->data(), buffer->size(), &result) != 0) {
      LoseRest(LossCause::kOverwritten, line_for);  // another thread has taken the ring
      return Stopped::kDrained;
    }
    if (result.lost_events > 0) {
      state_.steps.Forget();
      state_.step_open = false;  // its end may be lost; if it is open, the sample has it
    }
    // After the window's end, what lies behind the head is not part of the session.
    const uint64_t lost = encoder->window().over
                              ? std::min(result.lost_events, info_.head_event - before.event)
                              : result.lost_events;
    if (result.events == 0) {
      account.attempted += lost;
      account.Lose(LossCause::kOverwritten, lost);
      if (cursor_.event == before.event && ++empty_reads == kMaxEmptyReads) {
        return Stopped::kHeld;
      }
      continue;
    }
    empty_reads = 0;

    const uint64_t first_event = cursor_.event - result.events;
    const uint64_t wanted = info_.head_event > first_event ? info_.head_event - first_event : 0;
    account.attempted += lost;
    // A thread's records are in the order of their ends: what was overwritten ended before the
    // oldest one left.
    if ((*buffer)[0].end_ticks < encoder->window().start_ticks) {
      account.outside += lost;
    } else {
      account.Lose(LossCause::kOverwritten, lost);
    }
    EventEncoder::Progress progress = encoder->Encode(&state_, buffer->data(), result.records,
                                                      std::min(wanted, result.events), hold_ticks);
    account.attempted += progress.events;
    const bool malformed = progress.events < std::min(wanted, result.events) &&
                           progress.records < result.records &&
                           (*buffer)[progress.records].end_ticks <= hold_ticks;
    if (malformed) {
      // Violates the recorder's contract. The rest of the chunk cannot be read and is skipped.
      account.attempted += result.events - progress.events;
      account.Lose(LossCause::kInvalid, result.events - progress.events);
      continue;
    }
    // Records that were not taken are read again next time.
    cursor_.record -= result.records - progress.records;
    cursor_.event -= result.events - progress.events;
    if (progress.events < result.events) return drained() ? Stopped::kDrained : Stopped::kHeld;
  }
  return Stopped::kDrained;
}

void ThreadDrain::LoseRest(LossCause cause, const LineFor& line_for) {
  if (drained()) return;
  const uint64_t rest = info_.head_event - cursor_.event;
  Account& account = Line(line_for)->account;
  account.attempted += rest;
  account.Lose(cause, rest);
  // Its end may be among them. After a jump of the clock there is no sample to show an open one.
  if (cause != LossCause::kClock) state_.step_open = false;
  cursor_ = {info_.head_record, info_.head_event};
}

void ThreadDrain::SampleOpenScopes(const LineFor& line_for) {
  jobscope_open_scope scopes[kMaxOpenScopes];
  const size_t count =
      std::min(reader_->open_scopes(info_.serial, scopes, kMaxOpenScopes), kMaxOpenScopes);
  state_.open_scopes.clear();
  if (count == 0) return;
  (void)Line(line_for);
  state_.open_scopes.assign(scopes, scopes + count);
}

bool ThreadDrain::IsInStep(int64_t number, uint64_t before_ticks) const {
  return std::any_of(state_.open_scopes.begin(), state_.open_scopes.end(), [&](const auto& scope) {
    return scope.has_step_number != 0 && scope.step_number == number &&
           scope.begin_ticks < before_ticks;
  });
}

void ThreadDrain::Finish(EventEncoder* encoder, const LineFor& line_for) {
  if (finished_) return;
  finished_ = true;
  CountReentered(line_for);
  if (state_.line != nullptr) encoder->FinishThread(&state_);
  if (ended()) reader_->release(info_.serial);
}

}  // namespace jobscope::host
