// SPDX-License-Identifier: Apache-2.0
//
// The functions of the CUDA driver that cupti_study calls, without NVIDIA's headers.
#ifndef TESTS_GPU_STUDY_CUDA_DRIVER_H_
#define TESTS_GPU_STUDY_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>

namespace jobscope::gpu_test {

using Handle = void*;  // of a context, module, function, stream, event, graph
using DevicePointer = uint64_t;

// F(name, symbol, parameters): the symbol is the current version of the function.
#define JOBSCOPE_STUDY_DRIVER(F)                                                                  \
  F(Init, "cuInit", (unsigned flags))                                                             \
  F(DeviceGet, "cuDeviceGet", (int* device, int ordinal))                                         \
  F(RetainContext, "cuDevicePrimaryCtxRetain", (Handle * context, int device))                    \
  F(SetContext, "cuCtxSetCurrent", (Handle context))                                              \
  F(Synchronize, "cuCtxSynchronize", ())                                                          \
  F(LoadModule, "cuModuleLoadData", (Handle * module, const void* image))                         \
  F(GetFunction, "cuModuleGetFunction", (Handle * function, Handle module, const char* name))     \
  F(Allocate, "cuMemAlloc_v2", (DevicePointer * pointer, size_t bytes))                           \
  F(CopyToDevice, "cuMemcpyHtoDAsync_v2",                                                         \
    (DevicePointer to, const void* from, size_t bytes, Handle stream))                            \
  F(CreateStream, "cuStreamCreate", (Handle * stream, unsigned flags))                            \
  F(SynchronizeStream, "cuStreamSynchronize", (Handle stream))                                    \
  F(Launch, "cuLaunchKernel",                                                                     \
    (Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,        \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, Handle stream, void** parameters, \
     void** extra))                                                                               \
  F(BeginCapture, "cuStreamBeginCapture_v2", (Handle stream, int mode))                           \
  F(EndCapture, "cuStreamEndCapture", (Handle stream, Handle * graph))                            \
  F(Instantiate, "cuGraphInstantiateWithFlags",                                                   \
    (Handle * executable, Handle graph, unsigned long long flags))                                \
  F(LaunchGraph, "cuGraphLaunch", (Handle executable, Handle stream))                             \
  F(DestroyExecutable, "cuGraphExecDestroy", (Handle executable))                                 \
  F(DestroyGraph, "cuGraphDestroy", (Handle graph))

inline constexpr unsigned kNonBlocking = 1;
inline constexpr int kCaptureModeGlobal = 0;

struct CudaDriver {
#define JOBSCOPE_STUDY_MEMBER(name, symbol, parameters) int32_t(*name) parameters = nullptr;
  JOBSCOPE_STUDY_DRIVER(JOBSCOPE_STUDY_MEMBER)
#undef JOBSCOPE_STUDY_MEMBER
};

}  // namespace jobscope::gpu_test

#endif  // TESTS_GPU_STUDY_CUDA_DRIVER_H_
