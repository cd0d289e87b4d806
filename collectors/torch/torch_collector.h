// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's operators, backward functions and record_function scopes, of all threads.
#ifndef COLLECTORS_TORCH_TORCH_COLLECTOR_H_
#define COLLECTORS_TORCH_TORCH_COLLECTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "jobscope/detail/writer_abi.h"

namespace jobscope {

// Registers callbacks with PyTorch for the time from Arm to Stop. What they see goes into the
// recorder as scopes of the thread that ran it: operators and backward functions at level 2, user
// scopes at level 1. So the events, their loss and the window are the host collector's, and its
// bits decide what is recorded when; this collector's own report counts only what it can't hand on.
//
// Needs neither Python nor its lock. Where PyTorch does not take callbacks, or is of a version that
// this was not tested with, its own profiler is tried in their place. Off, with the reason, where
// that can't be had either, or PyTorch is not loaded.
class TorchCollector : public Collector {
 public:
  // Runs a function on a thread of its own, which may wait for the GIL.
  using RunAside = std::function<void(std::function<void()>)>;

  // `writer` is of the process's recorder; null: there is none. `profiler` stands in for callbacks;
  // null: nothing does.
  TorchCollector(const struct jobscope_trace_writer_table* writer, RunAside run_aside,
                 std::unique_ptr<Collector> profiler);
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
  uint64_t LostSoFar() const override;

 private:
  absl::Status Register(const ArmRequest& request);
  // Sets state and reason.
  void ArmProfiler(const ArmRequest& request, std::string why);
  void Finish(CollectorReport* report) const;

  const struct jobscope_trace_writer_table* const writer_;
  const RunAside run_aside_;
  const std::unique_ptr<Collector> profiler_;
  CollectorReport report_;                // of the session
  bool awaits_groups_ = false;            // collectives of gloo have not been seen yet
  std::atomic<bool> by_profiler_{false};  // likewise
  bool registered_ = false;               // there are callbacks
  bool wants_shapes_ = false;
  uint64_t crossed_before_ = 0;
  mutable absl::Mutex mutex_;
  CollectorReport last_ ABSL_GUARDED_BY(mutex_);  // state and reason since the last Arm
  bool armed_once_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace jobscope

#endif  // COLLECTORS_TORCH_TORCH_COLLECTOR_H_
