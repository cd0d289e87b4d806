// SPDX-License-Identifier: Apache-2.0
//
// The training job: steps in a row, on a thread of its own, checked bit by bit as it runs.
#ifndef TESTS_GPU_WORKER_TRAINING_H_
#define TESTS_GPU_WORKER_TRAINING_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/gpu/worker/device.h"

namespace jobscope::gpu_test {

// The job starts anew every `cycle` steps: at the end of each cycle its state must be the same, bit
// for bit, whatever was captured in between.
class Training {
 public:
  explicit Training(Device* device) : device_(device) {}
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  struct Result {
    int64_t steps = 0;
    int64_t cycles = 0;      // whole ones
    int64_t mismatches = 0;  // cycles whose checksum is not the first one's
    uint64_t checksum = 0;   // of the first cycle
    std::vector<double> step_ms;
  };

  // Runs `steps` steps on the calling thread; only the times count.
  Error Run(int64_t steps, int64_t cycle, Result* result);
  // Until Stop, on a thread of its own.
  Error Start(int64_t cycle);
  Error Stop(Result* result);
  bool running() const { return thread_.joinable(); }

 private:
  // `steps` < 0: until asked to stop.
  Error Loop(int64_t steps, int64_t cycle, Result* result);

  Device* const device_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
  int64_t next_step_ = 0;  // of the process: steps have numbers that only grow
  Error error_;
  Result result_;
};

}  // namespace jobscope::gpu_test

#endif  // TESTS_GPU_WORKER_TRAINING_H_
