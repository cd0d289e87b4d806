// SPDX-License-Identifier: Apache-2.0
#include "server/security/background_check.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/time.h"
#include "common/clock/monotonic.h"
#include "common/threads/worker_thread.h"

namespace jobscope {
namespace {
constexpr uint64_t kIntervalNs = 1'000'000'000;
// A check takes less than a millisecond on a local disk, and some on a busy machine.
constexpr absl::Duration kMaxWait = absl::Milliseconds(100);
}  // namespace

void BackgroundCheck::Run(absl::AnyInvocable<void()> check) {
  const absl::MutexLock lock(&mutex_);
  const uint64_t now_ns = MonotonicNow();
  if (running_ || now_ns - started_ns_ < kIntervalNs) return;
  started_ns_ = now_ns;
  running_ = StartWorkerThread(name_, [this, check = std::move(check)]() mutable {
               const absl::Cleanup ended = [this] {
                 const absl::MutexLock ending(&mutex_);
                 running_ = false;
               };
               check();
             }).ok();
  mutex_.AwaitWithTimeout(absl::Condition(
                              +[](bool* running) { return !*running; }, &running_),
                          kMaxWait);
}

}  // namespace jobscope
