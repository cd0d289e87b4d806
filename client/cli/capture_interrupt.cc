// SPDX-License-Identifier: Apache-2.0
#include "client/cli/capture_interrupt.h"

#include <unistd.h>

#include "absl/time/time.h"
#include "client/cli/base/exit_code.h"

namespace jobscope {
namespace {

// Bounds the wait for a disk that hangs. Removing a directory takes less than a millisecond.
constexpr absl::Duration kRemoveTimeout = absl::Seconds(1);

}  // namespace

CaptureInterrupt::CaptureInterrupt() : watch_([this] { First(); }, [this] { Second(); }) {}

void CaptureInterrupt::OnPreparing() {
  const absl::MutexLock lock(&mutex_);
  preparing_ = true;
}

void CaptureInterrupt::OnDirectory(const RunDirectory& directory) {
  const absl::MutexLock lock(&mutex_);
  directory_ = directory;
}

void CaptureInterrupt::OnFanOut(FanOut* fan_out) {
  const absl::MutexLock lock(&mutex_);
  fan_out_ = fan_out;
  if (interrupted_) fan_out->Interrupt();
}

void CaptureInterrupt::First() {
  const absl::MutexLock lock(&mutex_);
  // Under the lock: no directory is created meanwhile.
  if (!preparing_) _exit(kExitInterrupted);
  interrupted_ = true;
  if (fan_out_ != nullptr) fan_out_->Interrupt();
}

void CaptureInterrupt::Second() {
  const absl::MutexLock lock(&mutex_);
  if (!directory_.has_value()) return;
  const bool removes = remover_.Start([this, directory = *directory_] {
    directory.RemoveIfEmpty();
    removed_.Notify();
  });
  if (removes) removed_.WaitForNotificationWithTimeout(kRemoveTimeout);
}

}  // namespace jobscope
