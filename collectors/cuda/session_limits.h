// SPDX-License-Identifier: Apache-2.0
//
// Defines the limits on time and memory of a session of the CUDA collector.
#ifndef COLLECTORS_CUDA_SESSION_LIMITS_H_
#define COLLECTORS_CUDA_SESSION_LIMITS_H_

#include <cstddef>

#include "absl/time/time.h"

namespace jobscope::cuda {

struct SessionLimits {
  // How long records are held: calls wait for the work they launched, all records for sorting.
  absl::Duration hold = absl::Seconds(2);
  size_t held_bytes = size_t{64} << 20;
  // Maximum time that Stop waits for work in flight to end while tracing stays on.
  absl::Duration work_in_flight = absl::Milliseconds(500);
  // CUPTI keeps buffers until they are full; a flush returns those whose work is done.
  absl::Duration flush_every = absl::Seconds(1);
  // Watchdog limits: all calls of Arm; a flush while recording; the last calls of Stop.
  absl::Duration begin = absl::Seconds(3);
  absl::Duration flush_hangs = absl::Seconds(2);
  absl::Duration end = absl::Milliseconds(900);
  // All of Stop except its last writing: its deadline is 2 s.
  absl::Duration stop = absl::Milliseconds(1600);
  // How long Detach waits for a CUDA call after which CUPTI can be finalized, and the watchdog
  // limit of this.
  absl::Duration detach_wait = absl::Milliseconds(100);
  absl::Duration detach = absl::Milliseconds(700);
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_SESSION_LIMITS_H_
