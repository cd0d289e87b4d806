// SPDX-License-Identifier: Apache-2.0
//
// The host collector's work in one session, from Arm to Report.
#ifndef COLLECTORS_HOST_HOST_SESSION_H_
#define COLLECTORS_HOST_HOST_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "collectors/collector.h"
#include "collectors/host/account.h"
#include "collectors/host/event_encoder.h"
#include "collectors/host/host_report.h"
#include "collectors/host/reader.h"
#include "collectors/host/thread_drain.h"
#include "collectors/host/thread_line.h"
#include "collectors/host/window.h"
#include "common/clock/clock_watch.h"

namespace jobscope::host {

// Not thread-safe: all on the collector's thread. See Collector for the verbs. The destructor
// leaves the recorder as it was found.
//
// What belongs to the session is a range of each ring: from the head noted at Arm (or at Start, if
// the window's start is still to come; or from the oldest event held, with a lookback) to the head
// noted at Stop. Of that range, what ended before the window or began after it is `outside`, also
// where it was overwritten before it was read. Without a lookback, the window begins no earlier
// than the mask is set: at Start, or at Arm of a session that records ahead.
//
// A planned end is known at Start, and whatever comes after it is outside. For an end that nobody
// planned, nothing that ended in the last 2 ms is encoded while the store takes events, as long as
// that fits into the rings: the session tells it a little late, and what began after it must not be
// in the trace by then.
class HostSession {
 public:
  // `bits`: of the session's mask; 0 records nothing, but still watches for steps if asked to.
  // `past_since_ticks`: since when something has been recorded all the time; UINT64_MAX: nothing
  // is.
  HostSession(const Reader* reader, const ArmRequest& request, uint32_t bits,
              uint64_t past_since_ticks);
  ~HostSession();
  HostSession(const HostSession&) = delete;
  HostSession& operator=(const HostSession&) = delete;

  // The earliest begin of a window of which the rings still hold everything.
  uint64_t OldestTicks() const;
  absl::Status Start(const StartRequest& request);
  absl::Duration Drain();
  absl::Status Stop(uint64_t end_ticks);
  CollectorReport Report() const { return report_; }

  // See Collector.
  uint64_t recording_since() const { return recording_since_; }
  uint64_t window_begin_ticks() const { return window_.start_ticks; }
  // What Drain found lost when it last counted.
  uint64_t lost_so_far() const { return lost_so_far_; }

 private:
  enum class Phase { kArmed, kWaitingForStep, kRecording, kStopped };

  ThreadLine* LineFor(int64_t tid, const char* name);
  // The recorder's list of all threads, in infos_, which grows until the list fits: at most 16,384
  // entries of 136 bytes. One pass over the recorder's states. Valid until the next call.
  absl::Span<const jobscope_thread_info> ListThreads();
  // Lists the threads, updates those that are known, adds those that are new, from their first
  // record on.
  void Refresh();
  // Lists the threads as they are now: the session begins at their heads, or as far back as their
  // rings hold. Returns how many have ended and lost their ring to another thread.
  uint64_t NoteThreads(bool oldest);
  void NoteTotals();

  // Follows the step trigger. False while nothing is to be drained.
  bool FollowTrigger();
  // The begin, in the trace, of the step that opened the window: its thread is read from there on.
  uint64_t BeginWithStep(uint64_t step_ticks);
  // While the start is not yet commanded.
  absl::Duration DrainAhead();
  // False: ticks do not run as the map says any more; the session is told.
  bool ClockHolds(const ClockSample& now);
  void DrainThreads(uint64_t entry_ticks);
  void FinishEnded();
  void SampleOpenScopes();
  // Threads that got no ring record nothing, but what they are inside of is known: a thread that
  // hangs there is what people look for.
  void SampleThreadsWithoutRing();
  absl::Duration NextDrain(uint64_t entry_ticks);
  void FlushOldLines(uint64_t now_ticks);
  bool Full();
  void LeaveRecorder();

  void AppendClock(const ClockSample& sample);
  // `recorded`: the window has been open.
  ReportInput AccountSoFar(bool recorded) const;
  void MakeReport(bool recorded);
  uint64_t Ticks(absl::Duration duration) const;
  uint64_t Now() const;

  const Reader* const reader_;
  const ArmRequest request_;
  const uint32_t bits_;
  const uint64_t past_since_ticks_;
  const ThreadDrain::LineFor line_for_;
  const std::function<bool()> full_;

  Phase phase_ = Phase::kArmed;
  bool holding_ = false;  // the recorder holds rings of ended threads, and maybe our mask
  std::optional<StepRange> steps_;
  bool keep_zero_ = false;
  bool window_closed_ = false;  // by the last step
  bool store_full_ = false;     // when it was last looked at
  uint64_t full_since_ticks_ = 0;
  uint64_t full_ticks_ = 0;             // in all
  std::optional<double> full_after_s_;  // the first time, since the zero
  uint64_t ahead_until_ns_ = 0;         // MONOTONIC; recording ahead of Start ends then
  uint64_t armed_ticks_ = 0;
  uint64_t recording_since_ = 0;
  uint64_t lost_so_far_ = 0;
  uint64_t last_count_ticks_ = 0;
  double ticks_per_second_ = 1e9;
  Window window_;
  std::unique_ptr<EventEncoder> encoder_;
  std::vector<std::unique_ptr<ThreadDrain>> threads_;  // by rising serial
  size_t next_thread_ = 0;                             // where the next Drain begins
  ThreadLines lines_;
  std::vector<jobscope_record> buffer_;
  std::vector<jobscope_thread_info> infos_;
  jobscope_totals totals_at_start_{};
  uint64_t threads_without_ring_ = 0;

  ClockWatch watch_;
  bool clock_jumped_ = false;
  uint64_t last_clock_ticks_ = 0;
  uint64_t last_flush_ticks_ = 0;
  uint64_t last_drain_ticks_ = 0;
  uint64_t last_heads_ = 0;  // of the busiest thread: records since the last drain
  uint64_t last_record_ticks_ = 0;
  double peak_rate_ = 0;        // of the busiest thread: records per tick, the highest of late
  uint64_t peak_ticks_ = 0;     // when it was reached
  uint64_t last_finished_ = 0;  // threads whose end the last drain found
  absl::Duration pause_;
  CollectorReport report_;
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_HOST_SESSION_H_
