// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/detacher.h"

#include <cstring>

namespace jobscope::cuda {
namespace {

// CUpti_CallbackData begins with its site: 0 enter, 1 exit.
constexpr uint32_t kSiteExit = 1;

}  // namespace

Detacher& Detacher::Get() {
  static auto* const detacher = new Detacher;
  return *detacher;
}

Detacher::Outcome Detacher::Detach(const CuptiApi* api, Subscriber subscriber, absl::Duration wait,
                                   CuptiResult* result) {
  *result = kCuptiSuccess;
  if (api->cuptiFinalize == nullptr || api->cuptiEnableDomain == nullptr) return Outcome::kRefused;
  // Nobody may be inside of CUPTI when it is finalized, this thread included: first the callbacks,
  // then the wish.
  bool told = false;
  for (const uint32_t domain : {kDomainRuntimeApi, kDomainDriverApi}) {
    const CuptiResult enabled = api->cuptiEnableDomain(1, subscriber, domain);
    told = told || enabled == kCuptiSuccess;
    if (enabled != kCuptiSuccess) *result = enabled;
  }
  if (!told) return Outcome::kRefused;
  api_ = api;
  subscriber_ = subscriber;
  result_ = kCuptiSuccess;
  state_.store(kWanted, std::memory_order_release);
  std::unique_lock<std::mutex> lock(mutex_);
  const auto ended = [this] { return state_.load(std::memory_order_acquire) == kEnded; };
  if (!ended_.wait_for(lock, absl::ToChronoNanoseconds(wait), ended)) {
    uint32_t wanted = kWanted;
    if (state_.compare_exchange_strong(wanted, kIdle, std::memory_order_acq_rel)) {
      lock.unlock();
      for (const uint32_t domain : {kDomainRuntimeApi, kDomainDriverApi}) {
        (void)api->cuptiEnableDomain(0, subscriber, domain);
      }
      return Outcome::kNoCall;
    }
    // An application thread is in it.
    ended_.wait(lock, ended);
  }
  *result = result_;
  state_.store(kIdle, std::memory_order_release);
  return Outcome::kDone;
}

void Detacher::OnCallback(uint32_t domain, const void* data) {
  if (state_.load(std::memory_order_relaxed) != kWanted) return;
  if ((domain != kDomainRuntimeApi && domain != kDomainDriverApi) || data == nullptr) return;
  uint32_t site = 0;
  std::memcpy(&site, data, sizeof(site));
  uint32_t wanted = kWanted;
  if (site != kSiteExit ||
      !state_.compare_exchange_strong(wanted, kRunning, std::memory_order_acq_rel)) {
    return;
  }
  result_ = api_->cuptiUnsubscribe(subscriber_);
  const CuptiResult finalized = api_->cuptiFinalize();
  if (result_ == kCuptiSuccess) result_ = finalized;
  const std::lock_guard<std::mutex> lock(mutex_);
  state_.store(kEnded, std::memory_order_release);
  ended_.notify_all();
}

}  // namespace jobscope::cuda
