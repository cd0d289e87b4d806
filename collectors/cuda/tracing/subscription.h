// SPDX-License-Identifier: Apache-2.0
//
// CUPTI's one subscription.
#ifndef COLLECTORS_CUDA_TRACING_SUBSCRIPTION_H_
#define COLLECTORS_CUDA_TRACING_SUBSCRIPTION_H_

#include <string>

#include "absl/status/status.h"
#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/tracing/call_report.h"

namespace jobscope::cuda {

// Subscribes to CUPTI, or finds out that tracing works without: beside a PyTorch, whose profiler
// needs the subscription for itself. Call thread only.
class Subscription {
 public:
  // All pointers must outlive this object.
  Subscription(const CuptiApi* api, CallReport* report) : api_(api), report_(*report) {}
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

  // Returns why there can be no GPU part: another profiler needs CUPTI.
  absl::Status Begin();
  // Subscribes for finalizing CUPTI, unless subscribed. Returns false with a warning if it cannot.
  bool Renew();
  // Unsubscribes, unless CUPTI has detached itself.
  void End();
  // CUPTI was finalized, or an attempt to has unsubscribed.
  void Forget();

  Subscriber subscriber() const { return subscriber_; }
  bool was_free() const { return was_free_; }  // nobody else was subscribed at Begin

 private:
  // Returns the current subscriber, if CUPTI names it.
  std::string Owner();
  // Handles that another profiler is subscribed, or may want to be (`result`: success). OK: tracing
  // works without a subscription.
  absl::Status GoWithout(CuptiResult result);

  const CuptiApi* const api_;
  CallReport& report_;
  Subscriber subscriber_ = nullptr;
  bool subscribed_ = false;
  bool was_free_ = false;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_SUBSCRIPTION_H_
