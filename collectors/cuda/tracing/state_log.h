// SPDX-License-Identifier: Apache-2.0
//
// Collects errors and warnings that CUPTI itself reports, and knows whether it may be called.
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
  // Called at exit: first, before captures are delivered, and when CUPTI is about to be destroyed.
  void NoteExit() { exits_.store(true, std::memory_order_release); }
  void NoteEnd() { ended_.store(true, std::memory_order_release); }
  // Forgets what was reported.
  void Clear();
  // Returns errors and warnings since the last call; only the first few.
  std::vector<std::string> Take();
  // Returns whether CUPTI has failed and detached from the process, or has been destroyed. Any
  // later call could attach it again.
  bool fatal() const {
    return fatal_.load(std::memory_order_acquire) || ended_.load(std::memory_order_acquire);
  }
  // Returns whether the process exits: captures wait for nothing.
  bool exits() const { return exits_.load(std::memory_order_acquire); }
  std::string fatal_text();

 private:
  static constexpr size_t kMaxTexts = 8;
  std::atomic<bool> fatal_{false};
  std::atomic<bool> exits_{false};
  std::atomic<bool> ended_{false};
  Mutex mutex_;
  std::vector<std::string> texts_ ABSL_GUARDED_BY(mutex_);
  std::string fatal_text_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_STATE_LOG_H_
