// SPDX-License-Identifier: Apache-2.0
//
// The threads of a session: which there are, and how far their rings have been read.
#ifndef COLLECTORS_HOST_SESSION_THREADS_H_
#define COLLECTORS_HOST_SESSION_THREADS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "collectors/host/account.h"
#include "collectors/host/event_encoder.h"
#include "collectors/host/reader.h"
#include "collectors/host/thread_drain.h"

namespace jobscope::host {

// Follows the recorder's list of threads. One thread's.
class SessionThreads {
 public:
  // `line_for` and `full` are called while rings are read.
  SessionThreads(const Reader* reader, ThreadDrain::LineFor line_for, std::function<bool()> full);

  // The recorder's list of all threads; grows until the list fits: at most 16,384 entries of 136
  // bytes. One pass over the recorder's states. Valid until the next call of any function.
  absl::Span<const jobscope_thread_info> List();
  // Begins anew with the threads as they are now: the session begins at their heads, or as far back
  // as their rings hold. Returns how many have ended and lost their ring to another thread.
  uint64_t BeginAnew(bool oldest);
  // Updates those that are known, adds those that are new, from their first record on.
  void Refresh();
  // The earliest begin of a window of which the rings still hold everything, if recording has gone
  // on since `since_ticks`.
  uint64_t OldestTicks(uint64_t since_ticks) const;
  // The session is over: none is left, and no memory for reading.
  void Clear();
  // Gives back the rings of threads that have ended. True: there were any.
  bool ReleaseEnded();

  // What has been recorded until the last Refresh is not of the session.
  void SkipAll();
  // The begin, in the trace, of the step that was marked to begin at `step_ticks`: its thread is
  // read from there on. Nothing: no thread has recorded it yet.
  std::optional<uint64_t> BeginWithStep(EventEncoder* encoder, uint64_t step_ticks);

  struct Pass {
    EventEncoder* encoder = nullptr;
    uint64_t entry_ticks = 0;     // when it began; nothing that ended later is read
    uint64_t held_ticks = 0;      // nor than this, of a thread whose ring has room
    uint64_t deadline_ticks = 0;  // when it must end
    bool hold = true;
  };
  // Reads the rings, beginning where the last pass ran out of time. False: this one has.
  bool Read(const Pass& pass);
  // Accounts for threads that have ended and are read to their end. Returns how many.
  uint64_t FinishEnded(EventEncoder* encoder, bool store_full);
  // Reads all to the heads of the last Refresh; what cannot be read by then is lost, by cause.
  void FinishAll(EventEncoder* encoder, uint64_t deadline_ticks, bool clock_jumped);
  // Samples what each thread is inside of. Asks `again` after each: true repeats it.
  void SampleOpenScopes(const std::function<bool(const ThreadDrain&)>& again);
  // Threads that got no ring record nothing, but what they are inside of is known: a thread that
  // hangs there is what people look for.
  void SampleWithoutRing(EventEncoder* encoder);
  // What is collected for each line goes to the store.
  void FlushLines() const;

  // Of the last Refresh.
  uint64_t without_ring() const { return without_ring_; }
  uint64_t busiest_records() const { return busiest_records_; }  // since the one before

 private:
  const Reader* const reader_;
  const ThreadDrain::LineFor line_for_;
  const std::function<bool()> full_;
  std::vector<std::unique_ptr<ThreadDrain>> threads_;  // by rising serial
  size_t next_ = 0;                                    // where the next pass begins
  std::vector<jobscope_thread_info> infos_;
  std::vector<jobscope_record> buffer_;
  uint64_t without_ring_ = 0;
  uint64_t busiest_records_ = 0;
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_SESSION_THREADS_H_
