// SPDX-License-Identifier: Apache-2.0
//
// Tracks the record kinds that stay enabled after a capture.
#ifndef COLLECTORS_CUDA_TRACING_LEFT_KINDS_H_
#define COLLECTORS_CUDA_TRACING_LEFT_KINDS_H_

#include <atomic>
#include <cstdint>
#include <set>
#include <vector>

#include "collectors/cuda/libraries/cupti_api.h"
#include "common/sync/mutex.h"

namespace jobscope::cuda {

// CUPTI has one set of enabled kinds per process: disabling those that torch.profiler has enabled,
// too, would end its recording. It disables only what it enabled itself, so a thread waits for the
// end of its recording and disables the rest. Thread-safe.
class LeftKinds {
 public:
  static LeftKinds& Get();

  // Returns whether torch.profiler may enable the kind.
  static bool MayBeShared(uint32_t kind);
  // Leaves the kinds enabled until torch.profiler does not record.
  void Leave(const CuptiApi* api, const std::vector<uint32_t>& kinds);
  // Disables them. Called when torch.profiler does not record.
  void Disable();
  bool empty();

  // Returns whether the kind, once enabled, must stay so: from CUPTI 12.6 to 13.0 (12.5 was not
  // tried), disabling the kernels' blocks for ever if another thread is launching a CUDA graph
  // (observed with 12.6, 12.8 and 12.9: it holds CUPTI's lock and waits for the driver's, and that
  // thread does the reverse); without graphs it waits until the GPU is idle.
  static bool NeverDisable(uint32_t version, uint32_t kind);
  // Whether kernels are traced from now on, though no capture runs.
  void SetKernelsStay(bool stay) { kernels_stay_.store(stay, std::memory_order_relaxed); }
  bool kernels_stay() const { return kernels_stay_.load(std::memory_order_relaxed); }

 private:
  void DisableLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AwaitEndOfRecording();

  Mutex mutex_;  // also held while kinds are disabled: the next capture enables them again
  const CuptiApi* api_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::set<uint32_t> kinds_ ABSL_GUARDED_BY(mutex_);
  bool awaits_ ABSL_GUARDED_BY(mutex_) = false;  // the thread runs
  std::atomic<bool> kernels_stay_{false};
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_LEFT_KINDS_H_
