// SPDX-License-Identifier: Apache-2.0
//
// Tracks the threads of a session, and how far their rings have been read.
#ifndef COLLECTORS_HOST_SESSION_THREADS_H_
#define COLLECTORS_HOST_SESSION_THREADS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "collectors/host/encoding/account.h"
#include "collectors/host/encoding/event_encoder.h"
#include "collectors/host/encoding/reader.h"
#include "collectors/host/thread_drain.h"

namespace jobscope::host {

// Follows the recorder's list of threads and drains their rings. Not thread-safe.
class SessionThreads {
 public:
  // `line_for` and `full` are called while rings are read.
  SessionThreads(const Reader* reader, ThreadDrain::LineFor line_for, std::function<bool()> full);

  // Returns the recorder's list of all threads. It grows until the list fits: at most 16,384
  // entries of 136 bytes. One pass over the recorder's states. Valid until the next call of any
  // function.
  absl::Span<const jobscope_thread_info> List();
  // Restarts with the current threads: the session begins at their heads, or as far back as their
  // rings hold. Returns how many have ended and lost their ring to another thread.
  uint64_t BeginAnew(bool oldest);
  // Updates known threads, and adds new ones from their first record on.
  void Refresh();
  // Returns the earliest begin of a window for which the rings still hold everything, if recording
  // has been on since `since_ticks`.
  uint64_t OldestTicks(uint64_t since_ticks) const;
  // Forgets all threads and frees the memory for reading, at the end of the session.
  void Clear();
  // Releases the rings of ended threads. True: there were any.
  bool ReleaseEnded();

  // Excludes everything recorded until the last Refresh from the session.
  void SkipAll();
  // Returns the begin, in the trace, of the step that was marked to begin at `step_ticks`: its
  // thread is read from there. nullopt: no thread has recorded it yet.
  std::optional<uint64_t> BeginWithStep(EventEncoder* encoder, uint64_t step_ticks);

  struct Pass {
    EventEncoder* encoder = nullptr;
    uint64_t entry_ticks = 0;     // when it began; nothing that ended later is read
    uint64_t held_ticks = 0;      // nor anything that ended later than this, if the ring has space
    uint64_t deadline_ticks = 0;  // when it must end
    bool hold = true;
  };
  // Reads the rings, beginning where the last pass ran out of time. False: this pass ran out of
  // time.
  bool Read(const Pass& pass);
  // Closes the accounts of ended threads that are read to their end. Returns how many.
  uint64_t FinishEnded(EventEncoder* encoder, bool store_full);
  // Reads everything up to the heads of the last Refresh; what cannot be read until the deadline is
  // lost, by cause.
  void FinishAll(EventEncoder* encoder, uint64_t deadline_ticks, bool clock_jumped);
  // Samples the open scopes of each thread. Calls `again` after each; true repeats it.
  void SampleOpenScopes(const std::function<bool(const ThreadDrain&)>& again);
  // Samples the open scopes of threads without a ring: they record nothing, but a thread that hangs
  // there is what people look for.
  void SampleWithoutRing(EventEncoder* encoder);
  // Writes the open segments of all lines to the store.
  void FlushLines() const;

  // As of the last Refresh.
  uint64_t without_ring() const { return without_ring_; }
  uint64_t busiest_records() const { return busiest_records_; }  // since the previous one

 private:
  const Reader* const reader_;
  const ThreadDrain::LineFor line_for_;
  const std::function<bool()> full_;
  std::vector<std::unique_ptr<ThreadDrain>> threads_;  // by increasing serial
  size_t next_ = 0;                                    // where the next pass begins
  std::vector<jobscope_thread_info> infos_;
  std::vector<jobscope_record> buffer_;
  uint64_t without_ring_ = 0;
  uint64_t busiest_records_ = 0;
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_SESSION_THREADS_H_
