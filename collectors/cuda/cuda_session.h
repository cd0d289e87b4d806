// SPDX-License-Identifier: Apache-2.0
//
// One session of the CUDA collector: records into items, and their account.
#ifndef COLLECTORS_CUDA_CUDA_SESSION_H_
#define COLLECTORS_CUDA_CUDA_SESSION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/records/clock_map.h"
#include "collectors/cuda/records/correlations.h"
#include "collectors/cuda/records/event_writer.h"
#include "collectors/cuda/records/kernel_names.h"
#include "collectors/cuda/records/record.h"
#include "collectors/cuda/records/step_timeline.h"
#include "collectors/cuda/records/thread_names.h"
#include "collectors/cuda/tracing/buffer_pool.h"
#include "collectors/cuda/tracing/finalize_policy.h"
#include "collectors/cuda/tracing/tracing.h"

namespace jobscope::cuda {

// Causes of loss: records without a start time, and work of the window that had not begun, or whose
// record had not come, at the end.
inline constexpr const char* kNoTimestamp = "gpu_no_timestamp";
inline constexpr const char* kUnfinished = "gpu_unfinished";

struct SessionLimits {
  // How long a record waits for others: a call for what it caused, and all for their order.
  absl::Duration hold = absl::Seconds(2);
  size_t held_bytes = size_t{64} << 20;
  // How long Stop waits for work in flight to end, at most, while tracing stays on.
  absl::Duration work_in_flight = absl::Milliseconds(500);
  // CUPTI keeps buffers until they are full; a flush brings those whose work is done.
  absl::Duration flush_every = absl::Seconds(1);
  // Watchdogs: of all calls of Arm, of a flush while recording, of the last calls of Stop.
  absl::Duration begin = absl::Seconds(3);
  absl::Duration flush_hangs = absl::Seconds(2);
  absl::Duration end = absl::Milliseconds(900);
  // All of Stop but for its last writing: its deadline is 2 s.
  absl::Duration stop = absl::Milliseconds(1600);
  // How long Leave waits for a call into CUDA as which returns CUPTI can be taken out; and the
  // watchdog of that.
  absl::Duration leave_wait = absl::Milliseconds(100);
  absl::Duration leave = absl::Milliseconds(700);
};

// From Arm to Report. Belongs to the collector's thread, but for LostSoFar.
//
// Every record of a kind we know counts as attempted, and ends in one of: an event, `outside` (of
// the window), or a cause of loss. To these come the records that CUPTI says it dropped
// ("cupti_dropped"), those of buffers that were for scrap ("gpu_pool"), and kernel launches in the
// window whose kernels never came, as far as they exceed what was lost without telling whose it was
// ("gpu_unfinished", with those whose records were not complete). Work that was launched after the
// end is outside of it, whatever became of it. Calls that our own threads make into CUDA count as
// nothing.
class CudaSession {
 public:
  CudaSession(const ArmRequest& request, const CuptiApi* api, bool uses_tsc,
              const Tracing::Options& tracing, const SessionLimits& limits, RecentSteps steps,
              std::shared_ptr<DetachedCaller> calls, FinalizeChoice finalize, bool graphs_seen);
  ~CudaSession();

  absl::Status Arm();
  absl::Status Start(const StartRequest& request);
  absl::Duration Drain();
  absl::Status Stop(uint64_t end_ticks);
  CollectorReport Report();
  // Whether a CUDA graph was seen.
  bool graphs_seen() const { return graphs_seen_; }
  uint64_t LostSoFar() const { return lost_so_far_.load(std::memory_order_relaxed); }

 private:
  // What is in the trace and what is not; all of it ends in the report.
  struct Account {
    uint64_t attempted = 0;
    uint64_t outside = 0;
    std::map<std::string, uint64_t> lost;
    uint64_t lost_without_id = 0;  // may be of any launch
    std::map<uint32_t, uint64_t> unknown_kinds;
    uint64_t unreadable_buffers = 0;
    uint64_t scrap_records = 0;
    uint64_t unread_records = 0;  // of buffers that there was no time to read

    void Lose(const char* cause, uint64_t count = 1) { lost[cause] += count; }
    // No id is known of the launch that it may be of.
    void LoseUnread(const char* cause);
  };
  // How the session ends; see Stop.
  enum class Phase { kArmed, kRecording, kEnding, kEnded };

  uint64_t Now() const;
  uint64_t Ticks(absl::Duration duration) const;
  // Reads buffers that came back, for at most `budget`. True: none is left.
  bool ReadBuffers(absl::Duration budget);
  void ReadBuffer(const BufferPool::Full& buffer);
  void CountScrap(const BufferPool::Full& buffer);
  void CountUnread();
  void TakeRecord(const uint8_t* record, size_t bytes);
  // The record is not in the trace.
  void Lose(const char* cause, const TimedActivity& timed);
  void Note(const TimedActivity& timed);
  // Writes what is held and ready.
  void Emit(const std::function<bool(const TimedActivity&)>& is_ready);
  void EmitUntil(uint64_t until_ticks);
  // What is known whole, before Stop begins to wait: a process that leaves waits for less than
  // that.
  void EmitSettled();
  void EmitOne(const TimedActivity& timed);
  void ChoosePlanes();
  const StepSpan* StepOf(uint64_t ticks) const;
  void ForgetOldCorrelations();
  // Reads until all work of the window has ended, or the time for that is over. False: some of it
  // has not. A flush may take longer, until `stop_deadline`: to give up on one loses all of it.
  bool AwaitWork(absl::Time stop_deadline);
  void TakeLastRecords(absl::Time deadline);
  void GiveUp();
  // Unsubscribes, and takes CUPTI out of the process where that is wanted and safe.
  void Leave();
  void CloseAccount();
  void AddWarnings();
  void AppendLoss();

  const ArmRequest request_;
  const CuptiApi* const api_;
  const bool uses_tsc_;
  const SessionLimits limits_;
  BufferPool& pool_;
  Tracing tracing_;
  ClockMap clock_;
  StepTimeline steps_;
  KernelNames kernels_;
  ThreadNames threads_;
  Window window_;
  EventWriter writer_;

  const FinalizeChoice finalize_;
  Phase phase_ = Phase::kArmed;
  bool graphs_seen_;
  bool work_in_flight_ = false;  // at the end
  bool given_up_ = false;
  bool left_ = false;
  std::string hang_reason_;
  double ticks_per_second_ = 1e9;
  uint64_t last_flush_ticks_ = 0;
  uint64_t last_write_ticks_ = 0;

  std::vector<TimedActivity> held_;
  Correlations correlations_;
  Account account_;
  std::map<uint32_t, EventWriter::Order> order_;  // by device
  std::atomic<uint64_t> lost_so_far_{0};
  CollectorReport report_;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_CUDA_SESSION_H_
