// SPDX-License-Identifier: Apache-2.0
//
// Disables later the record kinds that a capture left enabled for torch.profiler.
#ifndef COLLECTORS_CUDA_TRACING_LEFT_KINDS_H_
#define COLLECTORS_CUDA_TRACING_LEFT_KINDS_H_

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

 private:
  void DisableLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AwaitEndOfRecording();

  Mutex mutex_;  // also held while kinds are disabled: the next capture enables them again
  const CuptiApi* api_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::set<uint32_t> kinds_ ABSL_GUARDED_BY(mutex_);
  bool awaits_ ABSL_GUARDED_BY(mutex_) = false;  // the thread runs
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_LEFT_KINDS_H_
