// SPDX-License-Identifier: Apache-2.0
//
// The collector of what GPUs do: CUPTI's activity records.
#ifndef COLLECTORS_CUDA_CUDA_COLLECTOR_H_
#define COLLECTORS_CUDA_CUDA_COLLECTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "collectors/cuda/cuda_session.h"
#include "collectors/cuda/records/step_timeline.h"
#include "collectors/cuda/tracing/finalize_policy.h"
#include "common/threads/detached_caller.h"

namespace jobscope {

struct CudaCollectorOptions {
  std::string cupti_library;                    // JOBSCOPE_CUPTI_LIBRARY: this file and no other
  uint64_t buffer_bytes = uint64_t{256} << 20;  // JOBSCOPE_CUDA_BUFFER_MB: cap of trace buffers
  bool whole_graphs = false;    // JOBSCOPE_CUDA_GRAPHS=whole: one event per graph, not per node
  bool unified_memory = false;  // JOBSCOPE_CUDA_UNIFIED_MEMORY=1
  // JOBSCOPE_CUDA_DEVICE_BUFFER_MB: cap of CUPTI's memory on the GPU, of each context
  uint64_t device_buffer_bytes = uint64_t{64} << 20;
  cuda::FinalizeChoice finalize = cuda::FinalizeChoice::kNever;  // JOBSCOPE_CUPTI_FINALIZE
  cuda::RecentSteps steps;  // of the process's step source; empty: there is none
  cuda::SessionLimits limits;
  // Why this session's GPUs are traced by somebody else; empty text: they are not. Asked at Arm,
  // where there is a driver in use. Empty function: never.
  std::function<std::string(const ArmRequest&)> other_tracer;

  // What the environment says; what it says wrongly is left at its default.
  static CudaCollectorOptions FromEnvironment();
};

// Traces GPUs by CUPTI, where this process uses CUDA. Nothing of CUPTI is loaded before the first
// session, nothing of it is touched while none runs, CUDA is never initialised, and no context is
// made, made current or waited for. Where there is nothing to trace it is off, and says why; what
// goes wrong takes this part out of the session, not the session, and never the job.
class CudaCollector : public Collector {
 public:
  // `uses_tsc`: what the session's ticks are.
  CudaCollector(bool uses_tsc, CudaCollectorOptions options);
  ~CudaCollector() override;
  CudaCollector(const CudaCollector&) = delete;
  CudaCollector& operator=(const CudaCollector&) = delete;

  std::string_view name() const override { return "cuda"; }
  CollectorReport Describe() const override;
  std::string WhyOff(const ArmRequest& request) const override;
  absl::Status Arm(const ArmRequest& request) override;
  absl::Status Start(const StartRequest& request) override;
  absl::Duration Drain() override;
  absl::Status Stop(uint64_t end_ticks) override;
  CollectorReport Report() override;
  uint64_t LostSoFar() const override { return lost_so_far_.load(std::memory_order_relaxed); }

 private:
  // Why this session has no GPU part; keeps it for Describe.
  absl::Status Fail(std::string reason);
  void Off(std::string reason);

  const bool uses_tsc_;
  const CudaCollectorOptions options_;
  std::atomic<uint64_t> lost_so_far_{0};

  // Of the collector's thread.
  std::shared_ptr<DetachedCaller> calls_;
  std::unique_ptr<cuda::CudaSession> session_;
  CollectorReport report_;
  bool graphs_seen_ = false;  // by any session of this process

  mutable std::mutex mutex_;
  std::string last_failure_;  // of the last session that failed; shown until one works
};

}  // namespace jobscope

#endif  // COLLECTORS_CUDA_CUDA_COLLECTOR_H_
