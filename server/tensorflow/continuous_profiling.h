// SPDX-License-Identifier: Apache-2.0
//
// Implements continuous profiling: recording stays on, and a snapshot returns what the rings still
// hold.
#ifndef SERVER_TENSORFLOW_CONTINUOUS_PROFILING_H_
#define SERVER_TENSORFLOW_CONTINUOUS_PROFILING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/tensorflow/tensorflow_validation.h"

namespace jobscope {

// Turns continuous profiling on and off, and describes snapshots. One per server. Thread-safe.
// Never blocks. Recording continues during snapshots, so there is no gap between two of them: they
// overlap, as far as the rings reach back. It ends after `limit`, the operator's ceiling on
// durations: a client that has disconnected turns nothing off.
class ContinuousProfiling {
 public:
  // Turns recording on at a host level, or off (nullopt). Called with this class's lock held, one
  // call at a time.
  using SetRecording = std::function<void(std::optional<int> host_level)>;

  ContinuousProfiling(SetRecording set_recording, absl::Duration limit);
  // Turns recording off.
  ~ContinuousProfiling();
  ContinuousProfiling(const ContinuousProfiling&) = delete;
  ContinuousProfiling& operator=(const ContinuousProfiling&) = delete;

  // Turns recording on; `call` is the request of its snapshots, `now` is SteadyNow(). Returns
  // ALREADY_EXISTS if it is on.
  absl::Status Start(ProfileCall call, absl::Time now);
  // Returns the request of a snapshot's session: no duration, and a lookback from now to the start
  // of continuous profiling, at most `limit` and limits::kMaxLookback. A session that is queued for
  // longer than limits::kMaxStartAge reaches that much less far back. `now` is SteadyNow(): the
  // date, which is `now_unix_ns`, may have been set meanwhile. Returns NOT_FOUND if profiling is
  // off; the text says so if it has ended by `limit`.
  absl::StatusOr<ProfileCall> Snapshot(absl::Time now, int64_t now_unix_ns) const;
  // Turns recording off. Returns NOT_FOUND if it is off.
  absl::Status Stop();
  // Turns recording off if it is on. Needs no memory for a status.
  void TurnOff();

  bool on() const;

 private:
  struct State;

  const std::shared_ptr<State> state_;  // shared with the timer
};

}  // namespace jobscope

#endif  // SERVER_TENSORFLOW_CONTINUOUS_PROFILING_H_
