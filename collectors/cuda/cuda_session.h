// SPDX-License-Identifier: Apache-2.0
//
// Runs one session of the CUDA collector: encodes records as items, and counts them.
#ifndef COLLECTORS_CUDA_CUDA_SESSION_H_
#define COLLECTORS_CUDA_CUDA_SESSION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "collectors/cuda/events/step_timeline.h"
#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/session_limits.h"
#include "collectors/cuda/session_records.h"
#include "collectors/cuda/tracing/buffer_pool.h"
#include "collectors/cuda/tracing/finalize_policy.h"
#include "collectors/cuda/tracing/tracing.h"

namespace jobscope::cuda {

struct CudaSessionOptions {
  const CuptiApi* api = nullptr;
  bool uses_tsc = false;
  Tracing::Options tracing;
  SessionLimits limits;
  RecentSteps steps;
  std::shared_ptr<DetachedCaller> calls;  // makes the calls into CUPTI that may hang
  FinalizeChoice finalize = FinalizeChoice::kByVersion;
  bool graphs_seen = false;  // an earlier session has seen a CUDA graph
};

// Records the GPU activity of one session, from Arm to Report. Belongs to the collector's thread,
// except LostSoFar. SessionAccount describes how each record is counted.
class CudaSession {
 public:
  CudaSession(const ArmRequest& request, const CudaSessionOptions& options);
  ~CudaSession();

  absl::Status Arm();
  absl::Status Start(const StartRequest& request);
  absl::Duration Drain();
  absl::Status Stop(uint64_t end_ticks);
  CollectorReport Report();
  // Returns whether a CUDA graph was seen, in this session or before.
  bool graphs_seen() const { return graphs_seen_ || records_.graphs_seen(); }
  uint64_t LostSoFar() const { return lost_so_far_.load(std::memory_order_relaxed); }

 private:
  enum class Phase { kArmed, kRecording, kEnded };

  // Notes whether torch.profiler records: it then gets CUPTI's records.
  void LookForTorchProfiler();
  // Reads until all work of the window has ended and come, or its time limit has passed; sets
  // work_in_flight_ and all_came_. A flush may take longer, until `stop_deadline`: abandoning one
  // would lose all of its records. `end`: mark of the buffers, at the end of the window.
  void AwaitWork(absl::Time stop_deadline, uint64_t end);
  void TakeLastRecords(absl::Time deadline, uint64_t end);
  void TakeLastKernels(absl::Time deadline, uint64_t mark);
  // CUPTI hangs: makes no further calls to it.
  void Abandon();
  // Unsubscribes, and finalizes CUPTI if that is wanted and safe.
  void Detach();
  // Returns whether CUPTI goes on tracing kernels after the session.
  bool KernelsStay() const;
  void AddWarnings();
  void Degrade(std::string reason);

  const ArmRequest request_;
  const CuptiApi* const api_;
  const SessionLimits limits_;
  const FinalizeChoice finalize_;
  const bool graphs_seen_;  // by earlier sessions
  BufferPool& pool_;
  Tracing tracing_;
  SessionRecords records_;

  Phase phase_ = Phase::kArmed;
  bool started_ = false;
  // At the end: some work of the window may not have ended; all its records have come.
  bool work_in_flight_ = true;
  bool all_came_ = false;
  size_t overdue_buffers_ = 0;            // with records, which CUPTI has not returned
  bool torch_profiler_recorded_ = false;  // since Start
  bool abandoned_ = false;
  bool detached_ = false;
  std::string hang_reason_;
  uint64_t last_flush_ticks_ = 0;
  std::atomic<uint64_t> lost_so_far_{0};
  CollectorReport report_;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_CUDA_SESSION_H_
