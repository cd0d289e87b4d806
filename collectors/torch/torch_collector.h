// SPDX-License-Identifier: Apache-2.0
//
// Collects PyTorch's operators, backward functions and record_function scopes, of all threads.
#ifndef COLLECTORS_TORCH_TORCH_COLLECTOR_H_
#define COLLECTORS_TORCH_TORCH_COLLECTOR_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "common/sync/mutex.h"
#include "jobscope/detail/writer_abi.h"

namespace jobscope {

// Registers callbacks with PyTorch for the time from Arm to Stop. They record scopes of the thread
// that ran the operator: operators and backward functions at level 2, user scopes at level 1. The
// host collector counts these events and their losses and applies the window, and its mask decides
// what is recorded; this collector's report counts only what it cannot pass on.
//
// Needs neither Python nor the GIL. Off, with the reason and the remedy, if PyTorch is not loaded,
// takes no callbacks, or has an untested version.
class TorchCollector : public Collector {
 public:
  // Runs a function on a thread of its own, which may wait for the GIL.
  using RunAside = std::function<void(std::function<void()>)>;

  // `writer` belongs to the process's recorder; null: there is none.
  TorchCollector(const struct jobscope_trace_writer_table* writer, RunAside run_aside);
  TorchCollector(const TorchCollector&) = delete;
  TorchCollector& operator=(const TorchCollector&) = delete;

  std::string_view name() const override { return "torch"; }
  CollectorReport Describe() const override ABSL_LOCKS_EXCLUDED(mutex_);
  std::string WhyOff(const ArmRequest& request) const override;
  absl::Status Arm(const ArmRequest& request) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Start(const StartRequest& request) override;
  absl::Duration Drain() override;
  absl::Status Stop(uint64_t end_ticks) override;
  CollectorReport Report() override;
  uint64_t LostSoFar() const override { return 0; }

 private:
  absl::Status Register(const ArmRequest& request);
  void Finish(CollectorReport* report) const;

  const struct jobscope_trace_writer_table* const writer_;
  const RunAside run_aside_;
  CollectorReport report_;      // of the session
  bool awaits_groups_ = false;  // collectives of gloo have not been seen yet
  bool registered_ = false;     // callbacks are registered
  bool wants_shapes_ = false;
  uint64_t crossed_before_ = 0;
  mutable Mutex mutex_;
  CollectorReport last_ ABSL_GUARDED_BY(mutex_);  // state and reason since the last Arm
  bool armed_once_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace jobscope

#endif  // COLLECTORS_TORCH_TORCH_COLLECTOR_H_
