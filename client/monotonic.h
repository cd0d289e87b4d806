// SPDX-License-Identifier: Apache-2.0
//
// This machine's MONOTONIC clock, on which the instants of a capture stand.
#ifndef CLIENT_MONOTONIC_H_
#define CLIENT_MONOTONIC_H_

#include <time.h>

#include <cstdint>

namespace jobscope {

inline uint64_t MonotonicNow() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace jobscope

#endif  // CLIENT_MONOTONIC_H_
