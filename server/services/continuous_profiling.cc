// SPDX-License-Identifier: Apache-2.0
#include "server/services/continuous_profiling.h"

#include <algorithm>
#include <utility>

#include "server/limits.h"

namespace jobscope {
namespace {

// Texts of stock servers, which clients and people search for.
absl::Status NotRunning() { return absl::NotFoundError("No continuous profiling session found."); }

}  // namespace

ContinuousProfiling::~ContinuousProfiling() { Stop().IgnoreError(); }

absl::Status ContinuousProfiling::Start(ProfileCall call, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (running_.has_value()) {
    return absl::AlreadyExistsError("A profiling session is already running.");
  }
  set_recording_(call.options.recording.host_tracer_level);
  running_ = Running{std::move(call), now};
  return absl::OkStatus();
}

absl::StatusOr<ProfileCall> ContinuousProfiling::Snapshot(absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  if (!running_.has_value()) return NotRunning();
  ProfileCall call = running_->call;
  call.options.duration = absl::ZeroDuration();
  // The lookback counts from this instant, not from the session's start.
  call.options.start_unix_ns = absl::ToUnixNanos(now);
  // Never zero, even if the wall clock was set back: a session without length and lookback would be
  // refused.
  call.options.lookback =
      std::clamp(now - running_->since, absl::Milliseconds(1), limits::kMaxLookback);
  return call;
}

absl::Status ContinuousProfiling::Stop() {
  absl::MutexLock lock(&mutex_);
  if (!running_.has_value()) return NotRunning();
  running_.reset();
  set_recording_(std::nullopt);
  return absl::OkStatus();
}

bool ContinuousProfiling::on() const {
  absl::MutexLock lock(&mutex_);
  return running_.has_value();
}

}  // namespace jobscope
