// SPDX-License-Identifier: Apache-2.0
//
// Collects GPU activity from CUPTI's activity records.
#ifndef COLLECTORS_CUDA_CUDA_COLLECTOR_H_
#define COLLECTORS_CUDA_CUDA_COLLECTOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "collectors/cuda/cuda_options.h"
#include "collectors/cuda/cuda_session.h"
#include "common/sync/mutex.h"
#include "common/threads/detached_caller.h"

namespace jobscope {

// Traces GPUs by CUPTI if this process uses CUDA. Loads nothing of CUPTI before the first session
// and calls nothing of it while none runs. Never initialises CUDA; never creates, activates or
// waits for a context. Without anything to trace it is off, with the reason; a failure ends this
// collector's part of the session, never the session or the job.
class CudaCollector : public Collector {
 public:
  // `uses_tsc`: whether the session's ticks are TSC.
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
  // Ends this session's GPU part and keeps the reason for Describe.
  absl::Status Fail(std::string reason);
  void Off(std::string reason);
  void PrecedeExitHandlers() const;
  cuda::CudaSessionOptions SessionOptionsWith(const cuda::CuptiApi* api, int driver_version) const;

  const bool uses_tsc_;
  const CudaCollectorOptions options_;
  std::atomic<uint64_t> lost_so_far_{0};

  // Used only by the collector's thread.
  std::shared_ptr<DetachedCaller> calls_;
  std::unique_ptr<cuda::CudaSession> session_;
  CollectorReport report_;
  bool graphs_seen_ = false;                  // in any session of this process
  const cuda::CuptiApi* used_api_ = nullptr;  // by the last session

  mutable Mutex mutex_;
  // Reason of the last failed session; kept until one succeeds.
  std::string last_failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace jobscope

#endif  // COLLECTORS_CUDA_CUDA_COLLECTOR_H_
