// SPDX-License-Identifier: Apache-2.0
//
// Detaches CUPTI from the process. NVIDIA calls only one place safe: inside of CUPTI's callback,
// when a call of the application into CUDA returns. Of these, uses only calls after which nothing
// of the context is in flight, because cuptiFinalize waits for all work in flight.
#ifndef COLLECTORS_CUDA_TRACING_DETACHER_H_
#define COLLECTORS_CUDA_TRACING_DETACHER_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "collectors/cuda/libraries/cupti_api.h"
#include "common/sync/mutex.h"

namespace jobscope::cuda {

// Finalizes CUPTI from inside of one of its callbacks. One per process: callbacks may come at any
// time. From elsewhere, cuptiFinalize races with every thread that is inside of CUPTI and crashes
// (pytorch/kineto#686).
class Detacher {
 public:
  static Detacher& Get();
  Detacher() = default;
  Detacher(const Detacher&) = delete;
  Detacher& operator=(const Detacher&) = delete;

  enum class Outcome {
    kDone,     // unsubscribed and finalized; `result` is that of cuptiFinalize
    kNoCall,   // no such call returned in time; nothing was done
    kRefused,  // CUPTI refused callbacks; nothing was done
  };
  // Detaches CUPTI. All record kinds must be disabled and flushed. Waits at most `wait` for a call
  // to return, then as long as finalizing takes; the caller runs under a watchdog. Call thread
  // only.
  Outcome Detach(const CuptiApi* api, Subscriber subscriber, absl::Duration wait,
                 CuptiResult* result);

  // Handles a subscriber's callback on an application thread. Costs one load if no detach is
  // requested.
  void OnCallback(uint32_t domain, const void* data);

 private:
  // State of a thread that has called CUDA since the callbacks were enabled. Only that thread
  // writes to it.
  struct Thread {
    std::atomic<uintptr_t> id{0};  // pthread_self; 0: free
    std::atomic<int> depth{0};     // nesting of calls
    // Whether `depth` is complete: a runtime call that was entered before the callbacks were
    // enabled, and contains driver calls, is not seen.
    std::atomic<bool> outermost_known{false};
    std::atomic<bool> waited{false};  // for its context, once in kWanted
  };
  enum State : uint32_t { kIdle, kCounting, kWanted, kRunning, kEnded };
  static constexpr size_t kMaxThreads = 256;
  // Waits until a thread has finalized, however long it takes once it has begun. False: none began
  // within `wait`, and none will.
  bool AwaitEnd(absl::Duration wait) ABSL_LOCKS_EXCLUDED(mutex_);
  void StopCallbacks();
  // Null: there are too many threads, and this one is not counted.
  Thread* ThisThread();
  // Counts the call. True: it was the outermost of its thread, waited for all work of its context,
  // and no other thread is inside of CUDA, except in a call that it entered before the callbacks
  // were enabled: that one cannot be seen. `state`: as the callback began.
  bool IsSafePlace(State state, uint32_t domain, uint32_t site, const char* function);

  std::atomic<State> state_{kIdle};
  // Written before kCounting is set, read after.
  const CuptiApi* api_ = nullptr;
  Subscriber subscriber_ = nullptr;
  // A Detach whose time limit has expired reads it while the call that finalizes may still write.
  std::atomic<CuptiResult> result_ = kCuptiSuccess;
  std::array<Thread, kMaxThreads> threads_;
  std::atomic<bool> uncounted_{false};  // a thread that had no room in `threads_` has called CUDA
  Mutex mutex_;                         // only for waiting; never held across a call into CUPTI
  CondVar ended_;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_DETACHER_H_
