// SPDX-License-Identifier: Apache-2.0
//
// Does the host collector's work in one session, from Arm to Report.
#ifndef COLLECTORS_HOST_HOST_SESSION_H_
#define COLLECTORS_HOST_HOST_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "collectors/host/drain_pace.h"
#include "collectors/host/encoding/event_encoder.h"
#include "collectors/host/encoding/line_table.h"
#include "collectors/host/encoding/reader.h"
#include "collectors/host/encoding/window.h"
#include "collectors/host/full_watch.h"
#include "collectors/host/host_report.h"
#include "collectors/host/recorder_hold.h"
#include "collectors/host/session_clocks.h"
#include "collectors/host/session_threads.h"
#include "collectors/host/step_window.h"
#include "common/clock/tick_clock.h"

namespace jobscope::host {

// Records one session of the host collector. Not thread-safe: used only on the collector's thread.
// See Collector for the calls. The destructor restores the recorder's settings.
//
// The session covers a range of each ring: from the head noted at Arm (or at Start, if the window
// starts later; or from the oldest event held, with a lookback) to the head noted at Stop. In that
// range, what ended before the window or began after it is `outside`, even if it was overwritten
// before it was read. Without a lookback, the window begins no earlier than the mask is set: at
// Start, or at Arm of a session that records ahead.
//
// A planned end is known at Start; later events are outside. For an unplanned end, events of the
// last 2 ms are not encoded while the store accepts events and the rings have space: Stop comes a
// little late, and events that began after the end must not be in the trace by then.
class HostSession {
 public:
  // `bits`: mask of the session; 0 records nothing, but still watches for steps if requested.
  // `past_since_ticks`: since when recording has been on without interruption; UINT64_MAX: it is
  // off.
  HostSession(const Reader* reader, const ArmRequest& request, uint32_t bits,
              uint64_t past_since_ticks);
  ~HostSession();
  HostSession(const HostSession&) = delete;
  HostSession& operator=(const HostSession&) = delete;

  // First call, once. Not a part of the constructor: if memory runs out in it, the destructor
  // releases what the recorder holds for this session.
  void Arm();
  // Returns the earliest begin of a window for which the rings still hold everything.
  uint64_t OldestTicks() const;
  absl::Status Start(const StartRequest& request);
  absl::Duration Drain();
  absl::Status Stop(uint64_t end_ticks);
  CollectorReport Report() const { return report_; }

  // Same as in Collector.
  uint64_t recording_since() const { return recorder_.since_ticks(); }
  uint64_t window_begin_ticks() const { return window_.start_ticks; }
  // Returns the losses that Drain last counted.
  uint64_t lost_so_far() const { return lost_so_far_; }

 private:
  enum class Phase { kArmed, kWaitingForStep, kRecording, kStopped };

  void NoteTotals() { reader_->totals(&totals_at_start_); }
  // Begins at the threads' current heads, together with the totals.
  void BeginAtHeads();

  // Drains while the start has not been commanded.
  absl::Duration DrainAhead();
  // Follows the step trigger. Returns false while nothing needs draining.
  bool FollowSteps();
  void FlushOldLines(uint64_t now_ticks);
  void CountLost(uint64_t now_ticks);
  // Drains everything up to the window's end, once nothing more is recorded.
  void DrainToEnd();
  void SampleOpenScopes();
  void LeaveRecorder();

  // `recorded`: the window was open.
  ReportInput AccountSoFar(bool recorded) const;
  void MakeReport(bool recorded);

  const Reader* const reader_;
  const ArmRequest request_;
  const uint64_t past_since_ticks_;

  Phase phase_ = Phase::kArmed;
  uint64_t armed_ticks_ = 0;
  uint64_t lost_so_far_ = 0;
  uint64_t last_count_ticks_ = 0;
  uint64_t last_flush_ticks_ = 0;
  jobscope_totals totals_at_start_{};

  TickClock ticks_;
  RecorderHold recorder_;
  Window window_;
  SessionClocks clocks_;
  FullWatch full_;
  LineTable lines_;
  SessionThreads threads_;
  DrainPace pace_;
  std::optional<StepWindow> steps_;
  std::unique_ptr<EventEncoder> encoder_;  // from Start to Stop
  CollectorReport report_;
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_HOST_SESSION_H_
