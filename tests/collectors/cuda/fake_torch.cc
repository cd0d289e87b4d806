// SPDX-License-Identifier: Apache-2.0
//
// A libtorch_cpu.so that has one function of PyTorch's: whether its profiler records.
#include <atomic>

#define EXPORT __attribute__((visibility("default")))

namespace {

std::atomic<int> looks{0};

}  // namespace

// How often the profiler is still seen to record; negative: always.
extern "C" EXPORT void FakeTorchSetRecording(int calls) { looks = calls; }

namespace torch::autograd::profiler {

EXPORT bool isProfilerEnabledInMainThread();
bool isProfilerEnabledInMainThread() {
  const int left = looks;
  if (left > 0) looks = left - 1;
  return left != 0;
}

}  // namespace torch::autograd::profiler
