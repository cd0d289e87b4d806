// SPDX-License-Identifier: Apache-2.0
//
// Collects errors and warnings that CUPTI itself reports.
#ifndef COLLECTORS_CUDA_TRACING_STATE_LOG_H_
#define COLLECTORS_CUDA_TRACING_STATE_LOG_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/sync/mutex.h"

namespace jobscope::cuda {

// Collects CUPTI's own errors and warnings. One per process: the callback may come on any thread at
// any time. Thread-safe.
class StateLog {
 public:
  static StateLog& Get();

  // Handles a notification of CUPTI's domain STATE; ignores others.
  void OnCallback(uint32_t cbid, const void* data);
  void Clear();
  // Returns errors and warnings since the last call; only the first few.
  std::vector<std::string> Take();
  // Returns whether CUPTI has failed and detached from the process. Any later call could attach it
  // again.
  bool fatal() const { return fatal_.load(std::memory_order_acquire); }
  std::string fatal_text();

 private:
  static constexpr size_t kMaxTexts = 8;
  std::atomic<bool> fatal_{false};
  Mutex mutex_;
  std::vector<std::string> texts_ ABSL_GUARDED_BY(mutex_);
  std::string fatal_text_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_STATE_LOG_H_
