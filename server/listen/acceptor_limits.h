// SPDX-License-Identifier: Apache-2.0
//
// Defines the limits of the acceptor.
#ifndef SERVER_LISTEN_ACCEPTOR_LIMITS_H_
#define SERVER_LISTEN_ACCEPTOR_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "server/limits.h"

namespace jobscope {

// Interval at which the acceptor retries when nothing can be accepted.
inline constexpr int64_t kAcceptRetryNs = 250'000'000;

struct AcceptorLimits {
  // Descriptors of all connections together. A connection holds one, and a second one from its
  // first byte to its first request.
  size_t max_descriptors = limits::kMaxConnectionDescriptors;
  // The acceptor accepts nothing while the process could open fewer descriptors than this.
  size_t free_descriptors = limits::kFreeDescriptors;
  // A peer that sends something while less memory can be mapped is disconnected.
  uint64_t free_bytes = limits::kConnectionBytes;
  // How long a connection may stay silent.
  absl::Duration silence = limits::kMaxSilence;
  // A handshake takes milliseconds, on a busy machine some hundred. A connection younger than
  // `min_age` is not closed, as long as those that wait behind it are accepted within `max_wait`.
  absl::Duration min_age = absl::Seconds(1);
  absl::Duration max_wait = absl::Seconds(2);
  // How long Stop waits for the thread, which may be inside gRPC.
  absl::Duration stop = absl::Seconds(2);
};

}  // namespace jobscope

#endif  // SERVER_LISTEN_ACCEPTOR_LIMITS_H_
