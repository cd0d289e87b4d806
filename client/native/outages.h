// SPDX-License-Identifier: Apache-2.0
//
// The lost connections of one stream: since when, why, when to try again, and until when.
#ifndef CLIENT_NATIVE_OUTAGES_H_
#define CLIENT_NATIVE_OUTAGES_H_

#include <grpcpp/support/status.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include "absl/time/time.h"

namespace jobscope {

// Told the time, on MONOTONIC; opens and waits for nothing. Not thread-safe.
class Outages {
 public:
  // `resume_timeout`: an outage may last this long, or until so long after the planned end of the
  // recording.
  Outages(absl::Duration resume_timeout, uint32_t seed);

  // An attempt has failed, or the connection was lost; the last message came at `heard_ns`. Returns
  // true if an outage has begun.
  bool Fail(const grpc::Status& why, uint64_t now_ns, uint64_t heard_ns);
  // How long to wait before the next attempt. Doubles each time.
  absl::Duration NextBackoff();
  // The worker delivers: the next wait is a short one again.
  void ResetBackoff();
  // A message came. Returns how long the outage took, if there was one.
  std::optional<absl::Duration> End(uint64_t now_ns);

  bool ongoing() const { return ongoing_; }
  // Since when the connection is lost. Of an ongoing outage.
  uint64_t since_ns() const { return since_ns_; }
  // When it is given up; never, if there is none.
  uint64_t GiveUpAt(uint64_t planned_end_ns) const;
  // Why it is given up: what cut it off, and what the last attempt met.
  grpc::Status WhyGivenUp() const;
  // `status` as the end of the stream: during an outage with what cut it off before.
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
