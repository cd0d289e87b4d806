// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/tracing/subscription.h"

#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "collectors/cuda/libraries/other_profilers.h"
#include "collectors/cuda/tracing/detacher.h"
#include "collectors/cuda/tracing/left_kinds.h"
#include "collectors/cuda/tracing/state_log.h"

namespace jobscope::cuda {
namespace {

// Part of Begin's 3 s: PyTorch's profiler takes a second on first use.
constexpr absl::Duration kKinetoTimeout = absl::Seconds(2);

// Returns the name in CUPTI's description of a subscriber, "CUPTI for <name>"; empty if it has no
// name, which CUPTI 13.0 to 13.5 describe as "CUPTI for <not provided>".
std::string SubscriberName(absl::string_view description) {
  description = absl::StripAsciiWhitespace(description);
  if (!absl::ConsumePrefix(&description, "CUPTI for")) absl::ConsumePrefix(&description, "CUPTI");
  description = absl::StripAsciiWhitespace(description);
  return description == "<not provided>" ? "" : std::string(description);
}

void OnCallback(void* /*userdata*/, uint32_t domain, uint32_t cbid, const void* data) {
  Detacher::Get().OnCallback(domain, data);
  if (domain == kDomainState) StateLog::Get().OnCallback(cbid, data);
}

}  // namespace

std::string Subscription::Owner() {
  if (api_->cuptiSubscribe_v2 == nullptr) return {};
  char owner[128] = {};
  SubscriberParams params{sizeof(params), "jobscope", owner, sizeof(owner) - 1};
  Subscriber other = nullptr;
  report_.call = "cuptiSubscribe_v2";
  if (api_->cuptiSubscribe_v2(&other, &OnCallback, nullptr, &params) == kCuptiSuccess) {
    (void)api_->cuptiUnsubscribe(other);
    return {};
  }
  return SubscriberName(owner);
}

absl::Status Subscription::GoWithout(CuptiResult result) {
  // Kineto has no name: it subscribes by the older function.
  const std::string owner = result == kCuptiSuccess ? std::string() : Owner();
  if (!owner.empty()) {
    return absl::FailedPreconditionError(report_.Failure("cuptiSubscribe", result, owner));
  }
  report_.call = "looking for other profilers";
  const OtherProfiler other = FindOtherProfiler(kKinetoTimeout);
  if (other.kind != OtherProfiler::kKinetoRecords && result == kCuptiSuccess) {
    return absl::OkStatus();
  }
  if (other.kind == OtherProfiler::kKineto) {
    report_.Warn(
        "PyTorch's profiler (Kineto) holds CUPTI's subscription, as it does from its first use on: "
        "traced without one. Kernels are tied to their launches as usual; what CUPTI detects by "
        "itself is not reported, and CUPTI is not finalized");
    return absl::OkStatus();
  }
  if (other.kind == OtherProfiler::kKinetoRecords) {
    return absl::FailedPreconditionError(
        absl::StrCat("torch.profiler records in this process, and CUPTI serves one profiler at a "
                     "time; capture again when its recording has ended (cuptiSubscribe: ",
                     result, ")"));
  }
  return absl::FailedPreconditionError(report_.Failure("cuptiSubscribe", result, other.name));
}

absl::Status Subscription::Begin() {
  report_.call = "looking for other profilers";
  if (const std::string detector = FindStragglerDetector(); !detector.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the straggler detector of nvidia-resiliency-ext (", detector,
        ") uses CUPTI in this process, and a capture would take its records away for the rest of "
        "the job; to trace the GPUs, start the job without the straggler detector"));
  }
  if (LeftKinds::NeverDisable(api_->version, kKindConcurrentKernel) && api_->version < kCupti12_9) {
    if (const std::string xla = FindXla(); !xla.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "CUPTI ", CuptiVersionText(api_->version),
          " cannot stop tracing kernels safely, and the buffers that it then needs would crash ",
          xla,
          "'s own tracer at its next recording; capture with --device_tracer=framework, or use "
          "libcupti 12.9 or 13"));
    }
  }
  const bool beside_kineto = PyTorchHasCuda();
  report_.call = "cuptiSubscribe";
  const CuptiResult result = api_->cuptiSubscribe(&subscriber_, &OnCallback, nullptr);
  if (result == kCuptiMultipleSubscribers) return GoWithout(result);
  if (result != kCuptiSuccess) {
    return absl::FailedPreconditionError(report_.Failure("cuptiSubscribe", result));
  }
  subscribed_ = true;
  was_free_ = true;
  // Kineto tries to subscribe once, on its first use: refused, it never traces a GPU again in this
  // process. So the subscription must be free while its first use may come.
  if (beside_kineto) {
    End();
    return GoWithout(kCuptiSuccess);
  }
  if (api_->cuptiEnableDomain != nullptr && api_->version >= kCupti12_2) {
    report_.call = "cuptiEnableDomain";
    (void)api_->cuptiEnableDomain(1, subscriber_, kDomainState);
  }
  return absl::OkStatus();
}

bool Subscription::Renew() {
  if (subscribed_) return true;
  report_.call = "cuptiSubscribe";
  const CuptiResult result = api_->cuptiSubscribe(&subscriber_, &OnCallback, nullptr);
  if (result != kCuptiSuccess) {
    report_.Warn(
        absl::StrCat("CUPTI is not finalized: ", report_.Failure("cuptiSubscribe", result)));
    return false;
  }
  subscribed_ = true;
  return true;
}

void Subscription::End() {
  if (!std::exchange(subscribed_, false) || StateLog::Get().fatal()) return;
  report_.call = "cuptiUnsubscribe";
  const CuptiResult result = api_->cuptiUnsubscribe(subscriber_);
  subscriber_ = nullptr;
  if (result != kCuptiSuccess && !StateLog::Get().fatal()) {
    report_.Warn(
        absl::StrCat("CUPTI stays attached: ", report_.Failure("cuptiUnsubscribe", result)));
  }
}

void Subscription::Forget() {
  subscribed_ = false;
  subscriber_ = nullptr;
}

}  // namespace jobscope::cuda
