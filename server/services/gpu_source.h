// SPDX-License-Identifier: Apache-2.0
//
// Gives the services the state of the GPUs; hides who asks the driver.
#ifndef SERVER_SERVICES_GPU_SOURCE_H_
#define SERVER_SERVICES_GPU_SOURCE_H_

#include <functional>

#include "absl/time/time.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

// Both functions are thread-safe and never block. Empty functions: this worker does not ask for
// GPUs.
struct GpuSource {
  // Returns the newest known state.
  std::function<v1::Gpus()> latest;
  // Requests a state not older than `max_age` (InfiniteDuration: any, if none is known yet). Calls
  // `done` on another thread once it is available. Returns false if there is nothing to wait for;
  // `done` is then not called.
  std::function<bool(absl::Duration max_age, std::function<void()> done)> refresh;

  explicit operator bool() const { return latest && refresh; }
};

// Runs `then` once: at once if the known state is not older than `max_age` or is unavailable, else
// when it is available, after `limit` at the latest. Runs on this thread, the source's, or one of
// gRPC's.
void WithGpus(const GpuSource& source, absl::Duration max_age, absl::Duration limit,
              std::function<void()> then);

}  // namespace jobscope

#endif  // SERVER_SERVICES_GPU_SOURCE_H_
