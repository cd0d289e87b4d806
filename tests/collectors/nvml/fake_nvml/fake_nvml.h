// SPDX-License-Identifier: Apache-2.0
//
// A libnvidia-ml without a driver: a shared library with NVML's ABI, which the loader opens like
// the real one, and which does what a test tells it by the functions below. They are found by
// dlsym.
#ifndef TESTS_COLLECTORS_NVML_FAKE_NVML_FAKE_NVML_H_
#define TESTS_COLLECTORS_NVML_FAKE_NVML_FAKE_NVML_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// All as new: so many GPUs, nothing fails, nothing hangs, no counts. Hanging calls return.
// GPU n has the UUID "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae<n as two hex digits>", as the fake
// libcuda tells it. It is busy to 10 + n percent, and so on: see the source.
void FakeNvmlReset(uint32_t gpus);
// The function returns `result` for the GPU; -1: for all, and where there is none.
void FakeNvmlFail(const char* function, int32_t gpu, int32_t result);
void FakeNvmlHang(const char* function);
void FakeNvmlRelease(void);
// Waits until a call hangs; 0: it did not within a while.
int FakeNvmlAwaitHang(void);
// Calls of the function since the reset; "": of all.
uint64_t FakeNvmlCalls(const char* function);
// Waits until the function was called so often; 0: it was not within a while.
int FakeNvmlAwaitCalls(const char* function, uint64_t calls);
// nvmlInit_v2 less nvmlShutdown.
int FakeNvmlOpen(void);
// From now on every call about this GPU says GPU_IS_LOST.
void FakeNvmlLose(uint32_t gpu);
void FakeNvmlSetLimits(uint64_t reasons);
// GPU 0 has an instance, of which NVML tells by the UUID "MIG-" with the digits of GPU `digits`.
void FakeNvmlAddMig(uint32_t digits);

#ifdef __cplusplus
}
#endif
#endif  // TESTS_COLLECTORS_NVML_FAKE_NVML_FAKE_NVML_H_
