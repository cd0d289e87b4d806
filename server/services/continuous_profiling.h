// SPDX-License-Identifier: Apache-2.0
//
// Continuous profiling: recording stays on, and a snapshot is a look back at what the rings still
// hold.
#ifndef SERVER_SERVICES_CONTINUOUS_PROFILING_H_
#define SERVER_SERVICES_CONTINUOUS_PROFILING_H_

#include <functional>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/rpc/request_validation.h"

namespace jobscope {

// One per server. Thread-safe; nothing waits. Recording goes on through every snapshot, so there is
// no gap between two of them: they overlap, as far as the rings reach.
class ContinuousProfiling {
 public:
  // Turns recording on at a host level, or off (nothing). Called under a lock of this class, one
  // call at a time.
  using SetRecording = std::function<void(std::optional<int> host_level)>;

  explicit ContinuousProfiling(SetRecording set_recording)
      : set_recording_(std::move(set_recording)) {}
  // Turns recording off.
  ~ContinuousProfiling();
  ContinuousProfiling(const ContinuousProfiling&) = delete;
  ContinuousProfiling& operator=(const ContinuousProfiling&) = delete;

  // ALREADY_EXISTS if it is on. `call` is what snapshots are asked with.
  absl::Status Start(ProfileCall call, absl::Time now);
  // What the session of a snapshot is asked with: no duration, and a lookback from now to the start
  // of continuous profiling, at most limits::kMaxLookback. One that waits in line for longer than
  // limits::kMaxStartAge reaches that much less far back. NOT_FOUND if it is off.
  absl::StatusOr<ProfileCall> Snapshot(absl::Time now) const;
  // NOT_FOUND if it is off.
  absl::Status Stop();

  bool on() const;

 private:
  struct Running {
    ProfileCall call;
    absl::Time since;
  };

  const SetRecording set_recording_;
  mutable absl::Mutex mutex_;
  std::optional<Running> running_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace jobscope

#endif  // SERVER_SERVICES_CONTINUOUS_PROFILING_H_
