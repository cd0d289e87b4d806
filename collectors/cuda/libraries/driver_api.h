// SPDX-License-Identifier: Apache-2.0
//
// Queries the CUDA driver without changing anything in the process.
#ifndef COLLECTORS_CUDA_LIBRARIES_DRIVER_API_H_
#define COLLECTORS_CUDA_LIBRARIES_DRIVER_API_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace jobscope::cuda {

// Properties of one GPU, as needed by the plane's stats and the kernels' occupancy. Unknown values
// are 0.
struct DeviceInfo {
  std::string name;
  uint64_t memory_bytes = 0;
  int compute_major = 0;
  int compute_minor = 0;
  int core_clock_khz = 0;
  int memory_clock_khz = 0;
  int memory_bus_bits = 0;
  int multiprocessors = 0;
  int max_threads_per_multiprocessor = 0;
  int max_blocks_per_multiprocessor = 0;
  int registers_per_multiprocessor = 0;
  int shared_bytes_per_multiprocessor = 0;
  int reserved_shared_bytes_per_block = 0;
};

// How far the process has used CUDA.
struct DriverState {
  enum Use {
    kNoDriver,        // no NVIDIA driver on this machine, or in this container
    kNotLoaded,       // a driver exists, but this process has not loaded libcuda
    kNotInitialized,  // libcuda is loaded, but nobody has called cuInit
    kNoDevice,        // initialised, but without a GPU
    kFailed,          // libcuda returns another error
    kInUse,
  };
  Use use = kNoDriver;
  int error = 0;           // CUresult, with kFailed
  int driver_version = 0;  // 12040 = CUDA 12.4; 0: unknown
  int device_count = 0;
};

// Finds the driver that the process uses, by RTLD_NOLOAD: never loads libcuda and never calls
// cuInit, which would break CUDA in children forked later. Acquires the loader's lock.
DriverState QueryDriver();

// Returns why there is no GPU trace; empty for kInUse.
std::string DriverReason(const DriverState& state);

// Returns the GPU with this ordinal; nullopt if the driver does not know it. Requires kInUse.
std::optional<DeviceInfo> QueryDevice(int ordinal);

// Returns the UUIDs of the process's GPUs in CUDA's order, as text without prefix; for a MIG
// instance its own UUID. nullopt: CUDA is not in use, or the driver is too old.
std::optional<std::vector<std::string>> QueryDeviceUuids();

// Returns whether libcuda is loaded, without waiting for libraries that are being loaded.
bool DriverIsLoaded();
// Likewise, but does not wait for a fork in progress: then returns the last known state.
bool DriverIsKnownLoaded();
// Returns kNoDriver or kNotLoaded, judged by files, for a process that has not loaded libcuda.
DriverState StateWithoutDriver();

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_LIBRARIES_DRIVER_API_H_
