// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/worker/training.h"

#include <chrono>
#include <utility>

#include "jobscope/trace.h"

namespace jobscope::gpu_test {

Training::~Training() {
  if (!thread_.joinable()) return;
  stop_ = true;
  thread_.join();
}

Error Training::Run(int64_t steps, int64_t cycle, Result* result) {
  if (thread_.joinable()) return "the training job runs already";
  stop_ = false;
  return Loop(steps, cycle, result);
}

Error Training::Start(int64_t cycle) {
  if (thread_.joinable()) return "the training job runs already";
  stop_ = false;
  result_ = {};
  thread_ = std::thread([this, cycle] {
    SetThreadName("trainer");
    error_ = Loop(-1, cycle, &result_);
  });
  return {};
}

Error Training::Stop(Result* result) {
  if (!thread_.joinable()) return "the training job does not run";
  stop_ = true;
  thread_.join();
  *result = std::move(result_);
  return std::exchange(error_, {});
}

Error Training::Loop(int64_t steps, int64_t cycle, Result* result) {
  if (Error error = device_->Reset(); !error.empty()) return error;
  for (int64_t n = 0; steps < 0 ? !stop_ : n < steps; ++n) {
    const std::chrono::nanoseconds begin = device_->Now();
    {
      JOBSCOPE_STEP("train", next_step_);
      ++next_step_;
      JOBSCOPE_SCOPE("forward");
      if (Error error = device_->TrainStep(n % cycle); !error.empty()) return error;
    }
    const std::chrono::duration<double, std::milli> length = device_->Now() - begin;
    ++result->steps;
    result->step_ms.push_back(length.count());
    if (n % cycle != cycle - 1) continue;
    uint64_t sum = 0;
    if (Error error = device_->Checksum(&sum); !error.empty()) return error;
    if (result->cycles++ == 0) result->checksum = sum;
    if (sum != result->checksum) ++result->mismatches;
    if (Error error = device_->Reset(); !error.empty()) return error;
  }
  return {};
}

}  // namespace jobscope::gpu_test
