// SPDX-License-Identifier: Apache-2.0
//
// One session of the CUDA collector: records into items, and their account.
#ifndef COLLECTORS_CUDA_CUDA_SESSION_H_
#define COLLECTORS_CUDA_CUDA_SESSION_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "collectors/cuda/buffer_pool.h"
#include "collectors/cuda/clock_map.h"
#include "collectors/cuda/cupti_api.h"
#include "collectors/cuda/event_writer.h"
#include "collectors/cuda/finalize_policy.h"
#include "collectors/cuda/kernel_names.h"
#include "collectors/cuda/record.h"
#include "collectors/cuda/step_timeline.h"
#include "collectors/cuda/thread_names.h"
#include "collectors/cuda/tracing.h"

namespace jobscope::cuda {

// Causes of loss: records without a start time, and work that had not ended at the end.
inline constexpr const char* kNoTimestamp = "gpu_no_timestamp";
inline constexpr const char* kUnfinished = "gpu_unfinished";

struct SessionLimits {
  // How long a record waits for others: a call for what it caused, and all for their order.
  absl::Duration hold = absl::Seconds(2);
  size_t held_bytes = size_t{64} << 20;
  // What Stop waits for work in flight to end, at most.
  absl::Duration work_in_flight = absl::Milliseconds(500);
  // CUPTI keeps buffers until they are full; a flush brings those whose work is done.
  absl::Duration flush_every = absl::Seconds(1);
  // Watchdogs: of all calls of Arm, of a flush while recording, of the last calls of Stop.
  absl::Duration begin = absl::Seconds(3);
  absl::Duration flush_hangs = absl::Seconds(2);
  absl::Duration end = absl::Milliseconds(900);
  // All of Stop but for its last writing: its deadline is 2 s.
  absl::Duration stop = absl::Milliseconds(1600);
  // How long a call into CUDA is waited for, as which returns CUPTI can be taken out; and the
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
// ("gpu_unfinished", with those whose records were not complete). Calls that our own threads make
// into CUDA count as nothing.
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
  // What is known under one correlation id.
  struct Correlation {
    bool has_work = false;
    bool has_call = false;
    bool has_runtime_call = false;
    bool launches = false;
    Launched launched;
    uint64_t call_start_ns = 0;
    uint64_t call_ticks = 0;
    uint64_t seen_ticks = 0;
  };

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
  // Writes what is held and old enough; all of it at the end.
  void Emit(uint64_t until_ticks);
  void EmitOne(const TimedActivity& timed);
  void ChoosePlanes();
  const StepSpan* StepOf(uint64_t ticks) const;
  void ForgetOldCorrelations();
  // Launches in the window of which no activity came, and that were to run.
  uint64_t LaunchesInFlight() const;
  // Whether some thread recorded a graph at that time.
  bool RecordsGraph(uint64_t ticks) const;
  void WaitForWork(absl::Time deadline);
  void GiveUp();
  // Unsubscribes, and takes CUPTI out of the process where that is safe.
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
  bool graphs_seen_;
  bool started_ = false;
  bool left_ = false;
  // CUPTI is made to give up also records that are not complete.
  bool last_flush_ = false;
  bool given_up_ = false;
  std::string hang_reason_;
  double ticks_per_second_ = 1e9;
  uint64_t last_flush_ticks_ = 0;
  uint64_t last_write_ticks_ = 0;

  std::vector<TimedActivity> held_;
  absl::flat_hash_map<uint32_t, Correlation> correlations_;
  // Where recordings of graphs began (+1) and ended (-1), by thread and ticks; at most
  // kMaxGraphMarks.
  std::map<uint32_t, std::map<uint64_t, int>> graph_marks_;
  size_t graph_mark_count_ = 0;

  uint64_t attempted_ = 0;
  uint64_t outside_ = 0;
  std::map<std::string, uint64_t> lost_;
  std::map<uint32_t, uint64_t> unknown_kinds_;
  uint64_t unreadable_buffers_ = 0;
  uint64_t scrap_records_ = 0;
  uint64_t unread_records_ = 0;                   // of buffers that there was no time to read
  uint64_t lost_without_id_ = 0;                  // may be of any launch
  std::map<uint32_t, EventWriter::Order> order_;  // by device
  std::atomic<uint64_t> lost_so_far_{0};
  CollectorReport report_;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_CUDA_SESSION_H_
