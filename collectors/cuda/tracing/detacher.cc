// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/tracing/detacher.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace jobscope::cuda {
namespace {

// CUpti_CallbackData, up to the needed fields.
struct CallbackData {
  uint32_t site;
  const char* function;
};
constexpr uint32_t kSiteEnter = 0;
constexpr uint32_t kSiteExit = 1;
constexpr std::array<uint32_t, 2> kDomains = {kDomainDriverApi, kDomainRuntimeApi};

// Returns whether the function waits for all work of its context. (Waiting for a stream or an event
// says nothing about others.)
bool WaitsForContext(std::string_view function) {
  for (const std::string_view name : {"cudaDeviceSynchronize", "cuCtxSynchronize"}) {
    if (function.substr(0, name.size()) == name) return true;
  }
  return false;
}

}  // namespace

Detacher& Detacher::Get() {
  static auto* const detacher = new Detacher;
  return *detacher;
}

Detacher::Outcome Detacher::Detach(const CuptiApi* api, Subscriber subscriber, absl::Duration wait,
                                   CuptiResult* result) {
  *result = kCuptiSuccess;
  if (api->cuptiFinalize == nullptr || api->cuptiEnableDomain == nullptr) return Outcome::kRefused;
  api_ = api;
  subscriber_ = subscriber;
  result_ = kCuptiSuccess;
  for (Thread& thread : threads_) {
    thread.outermost_known = false;
    thread.waited = false;
    thread.depth.store(0, std::memory_order_relaxed);
    thread.id.store(0, std::memory_order_relaxed);
  }
  // No thread may be inside of CUPTI when it is finalized, this one included: so the callbacks come
  // first, then the request. Calls are counted from the first callback on: an uncounted one would
  // let another thread finalize while it runs.
  uncounted_.store(false, std::memory_order_relaxed);
  state_.store(kCounting, std::memory_order_release);
  // Both, the driver's first: the driver calls within a reported runtime call are then reported,
  // too.
  for (const uint32_t domain : kDomains) {
    *result = api->cuptiEnableDomain(1, subscriber, domain);
    if (*result == kCuptiSuccess) continue;
    state_.store(kIdle, std::memory_order_release);
    StopCallbacks();
    return Outcome::kRefused;
  }
  state_.store(kWanted, std::memory_order_release);
  if (!AwaitEnd(wait)) {
    StopCallbacks();
    return Outcome::kNoCall;
  }
  *result = result_;
  state_.store(kIdle, std::memory_order_release);
  return Outcome::kDone;
}

void Detacher::StopCallbacks() {
  for (const uint32_t domain : kDomains) (void)api_->cuptiEnableDomain(0, subscriber_, domain);
}

bool Detacher::AwaitEnd(absl::Duration wait) {
  const MutexLock lock(&mutex_);
  const auto ended = [this] { return state_.load(std::memory_order_acquire) == kEnded; };
  if (ended_.WaitFor(&mutex_, wait, ended)) return true;
  State wanted = kWanted;
  if (state_.compare_exchange_strong(wanted, kIdle, std::memory_order_acq_rel)) return false;
  ended_.Wait(&mutex_, ended);  // an application thread is inside of it
  return true;
}

Detacher::Thread* Detacher::ThisThread() {
  const auto id = static_cast<uintptr_t>(pthread_self());
  for (Thread& thread : threads_) {
    uintptr_t owner = thread.id.load(std::memory_order_acquire);
    if (owner == id) return &thread;
    if (owner == 0 && thread.id.compare_exchange_strong(owner, id, std::memory_order_acq_rel)) {
      return &thread;
    }
  }
  uncounted_.store(true, std::memory_order_seq_cst);
  return nullptr;
}

bool Detacher::IsSafePlace(State state, uint32_t domain, uint32_t site, const char* function) {
  Thread* const thread = ThisThread();
  if (thread == nullptr || function == nullptr) return false;
  const int depth = thread->depth.load(std::memory_order_relaxed);
  if (site == kSiteEnter) {
    // Runtime calls do not nest in other calls.
    if (domain == kDomainRuntimeApi && depth == 0) thread->outermost_known = true;
    thread->depth.store(depth + 1, std::memory_order_seq_cst);
    return false;
  }
  if (site != kSiteExit) return false;
  if (depth == 0) {  // the call was entered before the callbacks were enabled
    // After a runtime call, all calls are seen; a driver call may have been inside of one.
    if (domain == kDomainRuntimeApi) thread->outermost_known = true;
    return false;
  }
  thread->depth.store(depth - 1, std::memory_order_seq_cst);
  if (depth != 1 || !WaitsForContext(function)) return false;
  // For programs that use only the driver API: one runtime call waits in the driver once, so a
  // thread's second such wait is not within the same unseen call. Nor within another one: both are
  // from after the runtime's callbacks came.
  const bool known = thread->outermost_known || thread->waited;
  if (state == kWanted) thread->waited = true;
  return known && !uncounted_.load(std::memory_order_seq_cst) &&
         std::all_of(threads_.begin(), threads_.end(), [](const Thread& other) {
           return other.depth.load(std::memory_order_seq_cst) == 0;
         });
}

void Detacher::OnCallback(uint32_t domain, const void* data) {
  const State state = state_.load(std::memory_order_acquire);
  if (state != kCounting && state != kWanted) return;
  if ((domain != kDomainRuntimeApi && domain != kDomainDriverApi) || data == nullptr) return;
  CallbackData call;
  std::memcpy(&call, data, sizeof(call));
  State wanted = kWanted;
  if (!IsSafePlace(state, domain, call.site, call.function) ||
      !state_.compare_exchange_strong(wanted, kRunning, std::memory_order_acq_rel)) {
    return;
  }
  // A finalized CUPTI has no subscriber, whatever this returns.
  (void)api_->cuptiUnsubscribe(subscriber_);
  result_ = api_->cuptiFinalize();
  const MutexLock lock(&mutex_);
  state_.store(kEnded, std::memory_order_release);
  ended_.NotifyAll();
}

}  // namespace jobscope::cuda
