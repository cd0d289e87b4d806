// SPDX-License-Identifier: Apache-2.0
//
// Implements continuous profiling: recording stays on, and a snapshot returns what the rings still
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

// Turns continuous profiling on and off, and describes snapshots. One per server. Thread-safe.
// Never blocks. Recording continues during snapshots, so there is no gap between two of them: they
// overlap, as far as the rings reach back.
class ContinuousProfiling {
 public:
  // Turns recording on at a host level, or off (nullopt). Called with this class's lock held, one
  // call at a time.
  using SetRecording = std::function<void(std::optional<int> host_level)>;

  explicit ContinuousProfiling(SetRecording set_recording)
      : set_recording_(std::move(set_recording)) {}
  // Turns recording off.
  ~ContinuousProfiling();
  ContinuousProfiling(const ContinuousProfiling&) = delete;
  ContinuousProfiling& operator=(const ContinuousProfiling&) = delete;

  // Turns recording on; `call` is the request of its snapshots. Returns ALREADY_EXISTS if it is on.
  absl::Status Start(ProfileCall call, absl::Time now);
  // Returns the request of a snapshot's session: no duration, and a lookback from now to the start
  // of continuous profiling, at most limits::kMaxLookback. A session that is queued for longer than
  // limits::kMaxStartAge reaches that much less far back. Returns NOT_FOUND if profiling is off.
  absl::StatusOr<ProfileCall> Snapshot(absl::Time now) const;
  // Turns recording off. Returns NOT_FOUND if it is off.
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
