// SPDX-License-Identifier: Apache-2.0
//
// What the services know about GPUs, without knowing who asks the driver.
#ifndef SERVER_SERVICES_GPU_SOURCE_H_
#define SERVER_SERVICES_GPU_SOURCE_H_

#include <functional>

#include "absl/time/time.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

// Both are thread-safe and never wait. Empty functions: this worker does not ask for GPUs.
struct GpuSource {
  // The newest that is known.
  std::function<v1::Gpus()> latest;
  // Asks for something that is not older than `max_age` (InfiniteDuration: for anything, if nothing
  // is known yet). `done` is called when it is there, on another thread. False: there is nothing to
  // wait for, and `done` is not called.
  std::function<bool(absl::Duration max_age, std::function<void()> done)> refresh;

  explicit operator bool() const { return latest && refresh; }
};

// Runs `then` once: at once if what is known is not older than `max_age` or cannot be had, else
// when it is there, but after `limit` at the latest. On this thread, the source's, or one of
// gRPC's.
void WithGpus(const GpuSource& source, absl::Duration max_age, absl::Duration limit,
              std::function<void()> then);

}  // namespace jobscope

#endif  // SERVER_SERVICES_GPU_SOURCE_H_
