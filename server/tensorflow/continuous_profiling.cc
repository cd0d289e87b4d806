// SPDX-License-Identifier: Apache-2.0
#include "server/tensorflow/continuous_profiling.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/limits.h"
#include "server/rpc/grpc_timer.h"

namespace jobscope {
namespace {

// A text of stock servers, which clients and people search for.
constexpr char kNotRunning[] = "No continuous profiling session found.";

}  // namespace

struct ContinuousProfiling::State {
  struct Running {
    ProfileCall call;
    absl::Time since;  // steady
    uint64_t number = 0;
    std::unique_ptr<GrpcTimer> timer;
  };

  absl::Status NotRunning() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (!ended_by_limit) return absl::NotFoundError(kNotRunning);
    return absl::NotFoundError(absl::StrCat(
        kNotRunning, " The last one ended after ", absl::FormatDuration(limit),
        ", this worker's ceiling: start it again, or have the worker started with a higher "
        "JOBSCOPE_MAX_DURATION_MS (options.max_duration_ms)"));
  }
  void End(bool by_limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    set_recording(std::nullopt);  // first: if it throws, Stop can try again
    running.reset();
    ended_by_limit = by_limit;
  }

  SetRecording set_recording;
  absl::Duration limit;
  absl::Mutex mutex;
  std::optional<Running> running ABSL_GUARDED_BY(mutex);
  uint64_t starts ABSL_GUARDED_BY(mutex) = 0;
  bool ended_by_limit ABSL_GUARDED_BY(mutex) = false;  // the last one
};

ContinuousProfiling::ContinuousProfiling(SetRecording set_recording, absl::Duration limit)
    : state_(std::make_shared<State>()) {
  state_->set_recording = std::move(set_recording);
  state_->limit = limit;
}

ContinuousProfiling::~ContinuousProfiling() { TurnOff(); }

void ContinuousProfiling::TurnOff() {
  const absl::MutexLock lock(&state_->mutex);
  if (state_->running.has_value()) state_->End(/*by_limit=*/false);
}

absl::Status ContinuousProfiling::Start(ProfileCall call, absl::Time now) {
  const absl::MutexLock lock(&state_->mutex);
  if (state_->running.has_value()) {
    return absl::AlreadyExistsError("A profiling session is already running.");
  }
  const uint64_t number = ++state_->starts;
  auto timer = RunAfter(state_->limit, [weak = std::weak_ptr<State>(state_), number] {
    const std::shared_ptr<State> state = weak.lock();
    if (state == nullptr) return;
    const absl::MutexLock lock(&state->mutex);
    if (state->running.has_value() && state->running->number == number)
      state->End(/*by_limit=*/true);
  });
  // Last of what may throw: recording is on only if the timer, Stop or the end turns it off.
  state_->set_recording(call.options.recording.host_tracer_level);
  state_->running = State::Running{std::move(call), now, number, std::move(timer)};
  return absl::OkStatus();
}

absl::StatusOr<ProfileCall> ContinuousProfiling::Snapshot(absl::Time now,
                                                          int64_t now_unix_ns) const {
  const absl::MutexLock lock(&state_->mutex);
  if (!state_->running.has_value()) return state_->NotRunning();
  ProfileCall call = state_->running->call;
  call.options.duration = absl::ZeroDuration();
  // The lookback counts from this instant, not from the session's start.
  call.options.start_unix_ns = now_unix_ns;
  // Never zero: a session without length and lookback would be refused.
  call.options.lookback = std::clamp(now - state_->running->since, absl::Milliseconds(1),
                                     std::min(state_->limit, limits::kMaxLookback));
  return call;
}

absl::Status ContinuousProfiling::Stop() {
  const absl::MutexLock lock(&state_->mutex);
  if (!state_->running.has_value()) return state_->NotRunning();
  state_->End(/*by_limit=*/false);
  return absl::OkStatus();
}

bool ContinuousProfiling::on() const {
  const absl::MutexLock lock(&state_->mutex);
  return state_->running.has_value();
}

}  // namespace jobscope
