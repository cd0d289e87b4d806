// SPDX-License-Identifier: Apache-2.0
//
// The native captures of a server, by their keys, and why those that were there are not any more.
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
#include "server/session/session.h"

namespace jobscope {

// Tests have shorter ones.
struct NativeCaptureLimits {
  absl::Duration hold = limits::kHold;
  absl::Duration armed = limits::kMaxArmed;
  absl::Duration stall = limits::kMaxDeliveryStall;
  absl::Duration resume = limits::kResumeTime;
};

// Thread-safe; nothing blocks.
class NativeCaptures : public std::enable_shared_from_this<NativeCaptures> {
 public:
  // Becomes the evictor of `sessions`.
  static std::shared_ptr<NativeCaptures> Make(std::shared_ptr<SessionManager> sessions,
                                              StepSource steps, NativeCaptureLimits limits);

  const NativeCaptureLimits& limits() const { return limits_; }

  // A capture that nobody has asked the session for yet. UNAVAILABLE: the server ends, or the
  // system has no random bytes for a key.
  absl::StatusOr<std::shared_ptr<NativeCapture>> New(SessionOptions options);
  // NOT_FOUND says why it is not here. Takes the same time whatever a wrong key has in common with
  // a right one.
  absl::StatusOr<std::shared_ptr<NativeCapture>> Find(absl::string_view key) const;
  // `why` completes "the capture ..."; empty: nobody knows its key.
  void Forget(const NativeCapture& capture, std::string why);

  // Whoever is over and does not hold the slot is dropped.
  void Evict();
  // The server ends: captures without a stream end now, others with their streams.
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
