// SPDX-License-Identifier: Apache-2.0
//
// Converts a duration to a gRPC deadline.
#ifndef RPC_DEADLINE_H_
#define RPC_DEADLINE_H_

#include <grpc/support/time.h>

#include <cstdint>

#include "absl/time/time.h"

namespace jobscope {

// The instant `delay` from now, on MONOTONIC: setting the clock does not move it.
inline gpr_timespec DeadlineIn(absl::Duration delay) {
  if (delay == absl::InfiniteDuration()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  const int64_t ns = absl::ToInt64Nanoseconds(delay);
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(ns < 0 ? 0 : ns, GPR_TIMESPAN));
}

}  // namespace jobscope

#endif  // RPC_DEADLINE_H_
