// SPDX-License-Identifier: Apache-2.0
//
// Reads one thread's ring into the encoder, and counts what could not be read.
#ifndef COLLECTORS_HOST_THREAD_DRAIN_H_
#define COLLECTORS_HOST_THREAD_DRAIN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "collectors/host/encoding/account.h"
#include "collectors/host/encoding/event_encoder.h"
#include "collectors/host/encoding/reader.h"
#include "collectors/host/encoding/thread_line.h"

namespace jobscope::host {

// Drains one thread (one incarnation, by serial) for one session: knows where the session began in
// its ring and how far it has been read. Belongs to the thread that drains.
class ThreadDrain {
 public:
  // Records copied from a ring at a time: 32 KiB stay in the L1 cache until they are encoded (5 %
  // more events per second than 128 KiB).
  static constexpr size_t kChunkRecords = 1024;

  // Returns the line of a thread; called when something must be written to it.
  using LineFor = std::function<ThreadLine*(int64_t tid, const char* name)>;

  // `start` is the session's begin in the ring.
  ThreadDrain(const Reader* reader, const jobscope_thread_info& info, jobscope_cursor start);

  uint64_t serial() const { return info_.serial; }
  bool ended() const { return info_.ended != 0; }
  // Returns true once everything is accounted for and its ring released. The recorder lists the
  // thread until another one takes the ring.
  bool finished() const { return finished_; }
  const jobscope_thread_info& info() const { return info_; }
  // Returns true once it has read up to the head given by the last Update.
  bool drained() const { return cursor_.event >= info_.head_event; }
  // Returns the number of records up to that head.
  uint64_t backlog() const {
    return info_.head_record > cursor_.record ? info_.head_record - cursor_.record : 0;
  }

  // Sets the recorder's current state of the thread.
  void Update(const jobscope_thread_info& info);
  // Restarts at the head given by the last Update: earlier events are not part of the session,
  // except waits before its first step. Finishes a thread that has ended.
  void Skip(std::vector<jobscope_record>* buffer);
  // Begins the session with the step that was marked to begin at `step_ticks`. If this is a step of
  // this thread, returns its begin in the trace, from where the thread is then read. nullopt: it is
  // not, or not yet recorded.
  std::optional<uint64_t> BeginWithStep(EventEncoder* encoder, std::vector<jobscope_record>* buffer,
                                        uint64_t step_ticks);

  enum class Stopped { kDrained, kHeld, kFull, kDeadline };
  // Reads up to the head given by the last Update, but no event that ended after `hold_ticks`.
  // Stops when `full` returns true or the tick counter passes `deadline_ticks`; checks both once
  // per chunk.
  Stopped Drain(EventEncoder* encoder, std::vector<jobscope_record>* buffer, uint64_t hold_ticks,
                uint64_t deadline_ticks, const std::function<bool()>& full,
                const LineFor& line_for);

  // Counts everything unread as lost.
  void LoseRest(LossCause cause, const LineFor& line_for);

  // Samples the scopes that the thread is currently inside of; for Stop.
  void SampleOpenScopes(const LineFor& line_for);
  bool listed = true;  // in the recorder's last list; used while walking it

  // Returns true if the sample has a step of this number.
  bool IsInStep(int64_t number, uint64_t before_ticks) const;
  // Notes that the recorder no longer lists the thread.
  void MarkGone() { info_.ended = 1; }
  // Closes the thread: no more events follow.
  void Finish(EventEncoder* encoder, const LineFor& line_for);

  ThreadLine* line() const { return state_.line; }

 private:
  ThreadLine* Line(const LineFor& line_for);
  // Counts what signal handlers were refused until the last Update as lost. Only when rings are
  // read: before a window of steps, Skip excludes it.
  void CountReentered(const LineFor& line_for);
  // Reads whole events from `cursor` up to the newest and passes each one's first record and the
  // cursor after it. Ends when `each` returns false.
  void ForEach(jobscope_cursor cursor, std::vector<jobscope_record>* buffer,
               const std::function<bool(const jobscope_record&, jobscope_cursor)>& each) const;

  const Reader* const reader_;
  jobscope_thread_info info_;
  jobscope_cursor cursor_;
  jobscope_cursor last_step_;  // after the last step that Skip passed
  uint64_t reentered_;         // accounted for so far
  bool finished_ = false;
  ThreadState state_;
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_THREAD_DRAIN_H_
