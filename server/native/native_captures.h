// SPDX-License-Identifier: Apache-2.0
//
// Holds the native captures of a server by their keys, and why earlier ones are gone.
#ifndef SERVER_NATIVE_NATIVE_CAPTURES_H_
#define SERVER_NATIVE_NATIVE_CAPTURES_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/limits.h"
#include "server/native/native_capture.h"
#include "server/services/step_source.h"
#include "server/session/session_manager.h"

namespace jobscope {

// Limits of captures and of clock streams; tests use smaller ones.
struct NativeCaptureLimits {
  absl::Duration hold = limits::kHold;
  absl::Duration armed = limits::kMaxArmed;
  absl::Duration stall = limits::kMaxDeliveryStall;
  absl::Duration resume = limits::kResumeTime;
  absl::Duration clock_idle = limits::kMaxClockIdle;
  uint64_t pings = limits::kMaxPings;

  // How often a stream sends progress and checks the limits above: while it is armed, while it is
  // armed by steps, and from `started` to its end. A progress message costs the job about 0.3 ms on
  // gRPC's threads, and a client of thousands of workers most of its time. An armed worker only
  // shows that it is alive, to clients that probe one that has been silent for 7 s; a client that
  // starts at a step predicts it from the progress; while recording, items that do not fill a
  // message travel with it.
  absl::Duration armed_tick = absl::Seconds(4);
  absl::Duration steps_tick = absl::Milliseconds(200);
  absl::Duration recording_tick = absl::Seconds(1);
};

// Finds, evicts and forgets captures. Thread-safe. Never blocks.
class NativeCaptures : public std::enable_shared_from_this<NativeCaptures> {
 public:
  // Creates the captures and sets them as the evictor of `sessions`.
  static std::shared_ptr<NativeCaptures> Make(std::shared_ptr<SessionManager> sessions,
                                              StepSource steps, NativeCaptureLimits limits);

  const NativeCaptureLimits& limits() const { return limits_; }

  // Creates a capture that has not requested a session yet. Returns UNAVAILABLE if the server shuts
  // down, or the system has no random bytes for a key.
  absl::StatusOr<std::shared_ptr<NativeCapture>> New(SessionOptions options);
  // Returns NOT_FOUND, with the reason, if the capture is gone. Takes the same time for every wrong
  // key, whatever it has in common with a right one.
  absl::StatusOr<std::shared_ptr<NativeCapture>> Find(absl::string_view key) const;
  // `why` completes "the capture ..."; empty: no client knows its key.
  void Forget(const NativeCapture& capture, const std::string& why);

  // Drops every capture that is over and does not hold the slot.
  void Evict();
  // The server shuts down: captures without a stream end now, others with their streams.
  void Close();
  bool closed() const;

  size_t size() const;

 private:
  NativeCaptures(std::shared_ptr<SessionManager> sessions, StepSource steps,
                 NativeCaptureLimits limits);
  std::vector<std::shared_ptr<NativeCapture>> All() const;

  struct Gone {
    std::string key;
    std::string why;
  };

  const std::shared_ptr<SessionManager> sessions_;
  const StepSource steps_;
  const NativeCaptureLimits limits_;

  mutable absl::Mutex mutex_;
  std::vector<std::shared_ptr<NativeCapture>> captures_ ABSL_GUARDED_BY(mutex_);
  std::deque<Gone> gone_ ABSL_GUARDED_BY(mutex_);  // the newest last; bounded
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace jobscope

#endif  // SERVER_NATIVE_NATIVE_CAPTURES_H_
