// SPDX-License-Identifier: Apache-2.0
//
// What CUPTI reports by itself.
#ifndef COLLECTORS_CUDA_TRACING_STATE_LOG_H_
#define COLLECTORS_CUDA_TRACING_STATE_LOG_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace jobscope::cuda {

// One of the process: CUPTI's callback may come on any thread, at any time. Thread-safe.
class StateLog {
 public:
  static StateLog& Get();

  // Of a notification in CUPTI's domain STATE; what is none is ignored.
  void OnCallback(uint32_t cbid, const void* data);
  void Clear();
  // Errors and warnings since the last call; the first few of them.
  std::vector<std::string> Take();
  // CUPTI has given up, and taken itself out of the process. Whatever is called then could bring it
  // back.
  bool fatal() const { return fatal_.load(std::memory_order_acquire); }
  std::string fatal_text();

 private:
  static constexpr size_t kMaxTexts = 8;
  std::atomic<bool> fatal_{false};
  std::mutex mutex_;
  std::vector<std::string> texts_;
  std::string fatal_text_;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_STATE_LOG_H_
