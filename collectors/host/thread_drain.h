// SPDX-License-Identifier: Apache-2.0
//
// Reads one thread's ring into the encoder, and counts what it could not read.
#ifndef COLLECTORS_HOST_THREAD_DRAIN_H_
#define COLLECTORS_HOST_THREAD_DRAIN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "collectors/host/account.h"
#include "collectors/host/event_encoder.h"
#include "collectors/host/reader.h"
#include "collectors/host/thread_line.h"

namespace jobscope::host {

// One thread (one incarnation, by serial) of one session: where the session began in its ring, how
// far it has been read. Belongs to the thread that drains.
class ThreadDrain {
 public:
  // Records that are copied from a ring at a time: 32 KiB, which stays in the first-level cache
  // until it has been encoded (5 % more events per second than 128 KiB).
  static constexpr size_t kChunkRecords = 1024;

  // Gives the line of a thread; called when there is something to write to it.
  using LineFor = std::function<ThreadLine*(int64_t tid, const char* name)>;

  // The session begins at `start`.
  ThreadDrain(const Reader* reader, const jobscope_thread_info& info, jobscope_cursor start);

  uint64_t serial() const { return info_.serial; }
  bool ended() const { return info_.ended != 0; }
  // All of it is accounted for, and its ring given back. The recorder lists it until the ring is
  // taken by another thread.
  bool finished() const { return finished_; }
  const jobscope_thread_info& info() const { return info_; }
  // Read to the head that the last Update told.
  bool drained() const { return cursor_.event >= info_.head_event; }
  // Records between here and there.
  uint64_t backlog() const {
    return info_.head_record > cursor_.record ? info_.head_record - cursor_.record : 0;
  }

  // What the recorder says of the thread now.
  void Update(const jobscope_thread_info& info, const LineFor& line_for);
  // Begins anew at the head that the last Update told: what was before is not of the session, but
  // for the waits before its first step. Finishes a thread that has ended.
  void Skip(std::vector<jobscope_record>* buffer);
  // The session begins with the step that was marked to begin at `step_ticks`. If that is this
  // thread's, its begin in the trace, from where on the thread is read then; nothing if it is not,
  // or has not recorded it yet.
  std::optional<uint64_t> BeginWithStep(EventEncoder* encoder, std::vector<jobscope_record>* buffer,
                                        uint64_t step_ticks);

  enum class Stopped { kDrained, kHeld, kFull, kDeadline };
  // Reads up to the head that the last Update told, but no event that ended after `hold_ticks`;
  // stops when `full` says so, or when the tick counter passes `deadline_ticks`. Both are asked
  // once per chunk.
  Stopped Drain(EventEncoder* encoder, std::vector<jobscope_record>* buffer, uint64_t hold_ticks,
                uint64_t deadline_ticks, const std::function<bool()>& full,
                const LineFor& line_for);

  // Counts what has not been read as lost.
  void LoseRest(LossCause cause, const LineFor& line_for);

  // Scopes that the thread is inside of now; for Stop.
  void SampleOpenScopes(const LineFor& line_for);
  bool listed = true;  // in the recorder's last list: for who walks it

  // True if the sample has a step of this number.
  bool IsInStep(int64_t number, uint64_t before_ticks) const;
  // The recorder does not list it any more.
  void MarkGone() { info_.ended = 1; }
  // Nothing more comes from this thread.
  void Finish(EventEncoder* encoder);

  ThreadLine* line() const { return state_.line; }

 private:
  ThreadLine* Line(const LineFor& line_for);
  // Reads whole events from `cursor` up to the newest: (first record, cursor behind it). Ends when
  // `each` says false.
  void ForEach(jobscope_cursor cursor, std::vector<jobscope_record>* buffer,
               const std::function<bool(const jobscope_record&, jobscope_cursor)>& each) const;

  const Reader* const reader_;
  jobscope_thread_info info_;
  jobscope_cursor cursor_;
  jobscope_cursor last_step_;  // behind the last step that Skip passed
  uint64_t reentered_;         // already accounted for
  bool finished_ = false;
  ThreadState state_;
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_THREAD_DRAIN_H_
