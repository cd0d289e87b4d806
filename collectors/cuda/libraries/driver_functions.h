// SPDX-License-Identifier: Apache-2.0
//
// Declares the part of the CUDA driver's ABI that jobscope uses, so that no CUDA header is needed
// to build. A test compares the declarations with NVIDIA's header.
#ifndef COLLECTORS_CUDA_LIBRARIES_DRIVER_FUNCTIONS_H_
#define COLLECTORS_CUDA_LIBRARIES_DRIVER_FUNCTIONS_H_

#include <cstddef>

namespace jobscope::cuda {

using DriverResult = int;  // CUresult
using DriverDevice = int;  // CUdevice

// All of them work without a context and without initialising the driver.
#define JOBSCOPE_DRIVER_FUNCTIONS(F)                                             \
  F(cuDriverGetVersion, (int* version))                                          \
  F(cuDeviceGetCount, (int* count))                                              \
  F(cuDeviceGet, (DriverDevice * device, int ordinal))                           \
  F(cuDeviceGetName, (char* name, int size, DriverDevice device))                \
  F(cuDeviceTotalMem_v2, (size_t * bytes, DriverDevice device))                  \
  F(cuDeviceGetAttribute, (int* value, unsigned attribute, DriverDevice device)) \
  F(cuDeviceGetUuid_v2, (void* uuid, DriverDevice device)) /* 16 bytes */

// A null function is missing in the driver.
struct DriverFunctions {
#define JOBSCOPE_DECLARE(name, parameters) DriverResult(*name) parameters = nullptr;
  JOBSCOPE_DRIVER_FUNCTIONS(JOBSCOPE_DECLARE)
#undef JOBSCOPE_DECLARE
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_LIBRARIES_DRIVER_FUNCTIONS_H_
