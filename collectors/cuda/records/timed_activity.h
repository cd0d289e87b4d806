// SPDX-License-Identifier: Apache-2.0
//
// Activities on the clock of the session.
#ifndef COLLECTORS_CUDA_RECORDS_TIMED_ACTIVITY_H_
#define COLLECTORS_CUDA_RECORDS_TIMED_ACTIVITY_H_

#include <cstdint>

#include "collectors/cuda/records/record.h"
#include "common/clock/clock.h"

namespace jobscope::cuda {

// An activity whose times are ticks of the session's clock.
struct TimedActivity {
  Activity activity;
  uint64_t start_ticks = 0;
  uint64_t end_ticks = 0;
  uint32_t name = 0;        // kernels: index in KernelNames
  bool unfinished = false;  // CUPTI was forced to flush it before it ended
};

// The GPU work launched by the call with some correlation id.
struct Launched {
  ActivityType type = ActivityType::kKernel;
  uint32_t device = 0;
  uint32_t name = 0;
};

// The window of the session.
struct Window {
  uint64_t start_ticks = 0;
  uint64_t end_ticks = UINT64_MAX;
  TickMap map;  // with its zero set

  bool Intersects(uint64_t begin, uint64_t end) const {
    return end >= start_ticks && begin <= end_ticks;
  }
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_RECORDS_TIMED_ACTIVITY_H_
