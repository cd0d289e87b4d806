// SPDX-License-Identifier: Apache-2.0
//
// Tracks the lost connections of one stream: since when, why, when to retry, and until when.
#ifndef CLIENT_NATIVE_OUTAGES_H_
#define CLIENT_NATIVE_OUTAGES_H_

#include <grpcpp/support/status.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include "absl/time/time.h"

namespace jobscope {

// Computes times only: callers pass the time, on MONOTONIC; opens nothing, never waits. Not
// thread-safe.
class Outages {
 public:
  // `resume_timeout`: longest outage, also counted from the planned end of the recording.
  Outages(absl::Duration resume_timeout, uint32_t seed);

  // Records that an attempt has failed, or the connection was lost; the last message arrived at
  // `heard_ns`. Returns true if an outage has begun.
  bool Fail(const grpc::Status& why, uint64_t now_ns, uint64_t heard_ns);
  // Returns the wait before the next attempt. Doubles each time.
  absl::Duration NextBackoff();
  // The worker delivers: the next wait is short again.
  void ResetBackoff();
  // A message arrived. Returns the duration of the outage, if there was one.
  std::optional<absl::Duration> End(uint64_t now_ns);

  bool ongoing() const { return ongoing_; }
  // Since when the connection is lost. Requires an ongoing outage.
  uint64_t since_ns() const { return since_ns_; }
  // The time at which to stop retrying; never, if there is no outage.
  uint64_t GiveUpAt(uint64_t planned_end_ns) const;
  // Returns the reason for stopping: the cause of the loss, and the failure of the last attempt.
  grpc::Status WhyGivenUp() const;
  // Returns `status` as the end of the stream: during an outage together with its cause.
  grpc::Status WithCause(const grpc::Status& status) const;

  int count() const { return count_; }             // of outages that have ended
  absl::Duration total() const { return total_; }  // likewise

 private:
  const uint64_t resume_timeout_ns_;
  bool ongoing_ = false;
  uint64_t silent_since_ns_ = 0;  // the last sign of life before the connection was lost
  uint64_t since_ns_ = 0;
  grpc::Status cause_;
  std::string last_failure_;
  absl::Duration backoff_;
  int count_ = 0;
  absl::Duration total_;
  std::minstd_rand random_;
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_OUTAGES_H_
