// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's operators, backward functions and record_function scopes, of all threads.
#ifndef COLLECTORS_FRAMEWORK_TORCH_COLLECTOR_H_
#define COLLECTORS_FRAMEWORK_TORCH_COLLECTOR_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "collectors/collector.h"
#include "jobscope/detail/writer_abi.h"

namespace jobscope {

// Registers callbacks with PyTorch for the time from Arm to Stop. What they see goes into the
// recorder as scopes of the thread that ran it: operators and backward functions at level 2, user
// scopes at level 1. So the events, their loss and the window are the host collector's, and its
// bits decide what is recorded when; this collector's own report counts only what it can't hand on.
//
// Needs neither Python nor its lock. Off, with the reason, where PyTorch is not loaded, or of a
// version that this was not tested with.
class TorchCollector : public Collector {
 public:
  // Runs a function on a thread of its own, which may wait for Python's lock.
  using RunAside = std::function<void(std::function<void()>)>;

  // `writer` is of the process's recorder; null: there is none.
  TorchCollector(const struct jobscope_trace_writer_table* writer, RunAside run_aside);
  TorchCollector(const TorchCollector&) = delete;
  TorchCollector& operator=(const TorchCollector&) = delete;

  // Begins to notice the steps of optimizers, from now on and without captures; once per process.
  void WatchSteps();

  std::string_view name() const override { return "torch"; }
  CollectorReport Describe() const override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Arm(const ArmRequest& request) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Start(const StartRequest&) override { return absl::OkStatus(); }
  absl::Status Stop(uint64_t end_ticks) override;
  CollectorReport Report() override;

 private:
  // Why this session has nothing of PyTorch; OK if it has.
  absl::Status Register(const ArmRequest& request);

  const struct jobscope_trace_writer_table* const writer_;
  const RunAside run_aside_;
  CollectorReport report_;  // of the session
  uint64_t crossed_before_ = 0;
  mutable absl::Mutex mutex_;
  std::string off_because_ ABSL_GUARDED_BY(mutex_);  // since the last Arm; empty: it was on
  bool armed_once_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace jobscope

#endif  // COLLECTORS_FRAMEWORK_TORCH_COLLECTOR_H_
