// SPDX-License-Identifier: Apache-2.0
//
// Reads the records of one session from CUPTI's buffers and turns them into events of the trace.
#ifndef COLLECTORS_CUDA_SESSION_RECORDS_H_
#define COLLECTORS_CUDA_SESSION_RECORDS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "collectors/collector.h"
#include "collectors/cuda/buffer_reader.h"
#include "collectors/cuda/events/event_writer.h"
#include "collectors/cuda/events/step_timeline.h"
#include "collectors/cuda/held_activities.h"
#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/records/api_calls.h"
#include "collectors/cuda/records/clock_map.h"
#include "collectors/cuda/records/kernel_names.h"
#include "collectors/cuda/records/thread_names.h"
#include "collectors/cuda/records/timed_activity.h"
#include "collectors/cuda/session_account.h"
#include "collectors/cuda/session_limits.h"
#include "common/clock/tick_clock.h"

namespace jobscope::cuda {

// Reads the buffers that CUPTI has returned, holds the activities until what they depend on is
// known, and writes them, with the session's clock, window, steps, names and account. Calls CUPTI
// only for names, for its clock and to walk its buffers. Belongs to the collector's thread.
class SessionRecords {
 public:
  SessionRecords(const ArmRequest& request, const CuptiApi* api, bool uses_tsc,
                 const SessionLimits& limits, RecentSteps steps);
  SessionRecords(const SessionRecords&) = delete;
  SessionRecords& operator=(const SessionRecords&) = delete;

  // Discards all buffers that were returned and not read. Returns the number of their records.
  uint64_t Discard() { return reader_.Discard(); }
  void BeginWindow(const StartRequest& request);
  // The records from before now are incomplete: the window does not begin earlier.
  void BeginWindowNow();
  // Begins to write what is read.
  void BeginWriting();
  // Relates the clocks to each other, and looks for new training steps. Call it before each
  // reading.
  void AddKnots();
  // Reads for at most `budget`, and writes what has been held long enough at `now_ticks`. Returns
  // whether no buffer is left.
  bool ReadAndWrite(absl::Duration budget, uint64_t now_ticks);

  void EndWindow(uint64_t end_ticks);
  // Reads for at most `budget` in Stop, which may find the whole pool full: writes what is held as
  // soon as it is too much. Returns whether no buffer is left.
  bool ReadAtTheEnd(absl::Duration budget);
  // Writes the activities that are complete, and appends them to the store.
  void WriteSettled();
  // Declares tracing over, see BufferReader::EndOfWork.
  void EndOfWork(bool all_came) { reader_.EndOfWork(all_came); }
  // Reads until the deadline. Counts what is left as unread, like discarded records.
  void ReadRest(absl::Time deadline);
  // Writes all that is held, closes the account, and fills in the report's numbers. `dropped`:
  // records that CUPTI reports as dropped; `all_came`: all work of the window had ended before
  // tracing was switched off.
  void Close(uint64_t dropped, bool all_came, CollectorReport* report);

  const TickClock& ticks() const { return ticks_; }
  const SessionAccount& account() const { return account_; }
  // Number of activities in the window so far.
  uint64_t taken() const { return held_.taken(); }
  // Number of launches in the window whose work has not arrived.
  uint64_t InFlight() const { return held_.InFlight(); }
  // Returns whether a CUDA graph, a node or a call of one was seen.
  bool graphs_seen() const { return reader_.graphs_seen() || held_.graphs_called(); }
  bool several_devices() const { return held_.several_devices(); }
  // Sum of all GPUs.
  LaunchOrder order() const { return held_.order(); }
  // Returns how often CUPTI's clock jumped.
  size_t clock_steps() const { return clock_.steps(); }
  // Losses so far.
  uint64_t lost() const { return writer_.refused() + account_.lost(); }

 private:
  const SessionLimits limits_;
  TickClock ticks_;
  ClockMap clock_;
  Window window_;
  StepTimeline steps_;
  KernelNames kernels_;
  ThreadNames threads_;
  ApiCalls calls_;
  SessionAccount account_;
  EventWriter writer_;
  HeldActivities held_;
  BufferReader reader_;
  uint64_t last_write_ticks_ = 0;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_SESSION_RECORDS_H_
