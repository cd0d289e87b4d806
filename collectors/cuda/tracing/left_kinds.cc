// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/tracing/left_kinds.h"

#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "collectors/cuda/libraries/other_profilers.h"
#include "collectors/cuda/tracing/state_log.h"
#include "common/threads/detached_caller.h"

namespace jobscope::cuda {
namespace {

constexpr absl::Duration kAskEvery = absl::Milliseconds(100);

}  // namespace

LeftKinds& LeftKinds::Get() {
  static auto* const left = new LeftKinds;
  return *left;
}

bool LeftKinds::MayBeShared(uint32_t kind) {
  switch (kind) {
    case kKindMemcpy:
    case kKindMemset:
    case kKindConcurrentKernel:
    case kKindRuntime:
    case kKindDriver:
    case kKindSynchronization:
    case kKindOverhead:
      return true;
    default:
      return false;
  }
}

bool LeftKinds::NeverDisable(uint32_t version, uint32_t kind) {
  return kind == kKindConcurrentKernel && version >= kCupti12_5 && version < kCupti13_0_1;
}

void LeftKinds::Leave(const CuptiApi* api, const std::vector<uint32_t>& kinds) {
  const MutexLock lock(&mutex_);
  api_ = api;
  kinds_.insert(kinds.begin(), kinds.end());
  // Without a thread the next capture disables them.
  awaits_ =
      awaits_ || DetachedCaller("jobscope-cupti").Post("CUPTI", [this] { AwaitEndOfRecording(); });
}

void LeftKinds::AwaitEndOfRecording() {
  while (true) {
    absl::SleepFor(kAskEvery);
    const MutexLock lock(&mutex_);
    if (!kinds_.empty() && !StateLog::Get().exits() && TorchProfilerRecords()) continue;
    DisableLocked();
    awaits_ = false;
    return;
  }
}

void LeftKinds::Disable() {
  const MutexLock lock(&mutex_);
  DisableLocked();
}

void LeftKinds::DisableLocked() {
  for (const uint32_t kind : std::exchange(kinds_, {})) {
    if (StateLog::Get().fatal() || StateLog::Get().exits()) return;
    (void)api_->cuptiActivityDisable(kind);
  }
}

bool LeftKinds::empty() {
  const MutexLock lock(&mutex_);
  return kinds_.empty();
}

}  // namespace jobscope::cuda
