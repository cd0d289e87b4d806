// SPDX-License-Identifier: Apache-2.0
//
// Declares the part of NVML's ABI that jobscope uses, so that no NVIDIA header is needed to build,
// and one function table for the driver's libnvidia-ml.
#ifndef COLLECTORS_NVML_NVML_API_H_
#define COLLECTORS_NVML_NVML_API_H_

#include <cstdint>
#include <string>

namespace jobscope::nvml {

// An nvmlReturn_t.
using Result = int32_t;
inline constexpr Result kSuccess = 0;
inline constexpr Result kNotSupported = 3;
inline constexpr Result kNoPermission = 4;
inline constexpr Result kNotFound = 6;
inline constexpr Result kDriverNotLoaded = 9;
inline constexpr Result kFunctionNotFound = 13;
inline constexpr Result kGpuIsLost = 15;
inline constexpr Result kResetRequired = 16;
inline constexpr Result kVersionMismatch = 18;
inline constexpr Result kGpuNotFound = 28;

using Device = void*;

struct Utilization {
  uint32_t gpu;     // percent of the last sample period in which a kernel ran
  uint32_t memory;  // percent of it in which memory was read or written
};

struct Memory {
  uint64_t total;
  uint64_t free;
  uint64_t used;
};

struct PciInfo {
  char legacy_bus_id[16];
  uint32_t domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

// nvmlClockType_t, nvmlTemperatureSensors_t
inline constexpr uint32_t kClockSm = 1;
inline constexpr uint32_t kClockMemory = 2;
inline constexpr uint32_t kTemperatureGpu = 0;

// Reasons for reduced clocks: bits of nvmlDeviceGetCurrentClocksEventReasons.
inline constexpr uint64_t kLimitSoftwarePowerCap = 0x04;
inline constexpr uint64_t kLimitHardwareSlowdown = 0x08;  // heat, or power brake
inline constexpr uint64_t kLimitSoftwareThermal = 0x20;
inline constexpr uint64_t kLimitHardwareThermal = 0x40;
inline constexpr uint64_t kLimitPowerBrake = 0x80;

// Required functions. Every driver that supports CUDA 11 has all of them.
#define JOBSCOPE_NVML_REQUIRED(F)                                     \
  F(nvmlInit_v2, ())                                                  \
  F(nvmlShutdown, ())                                                 \
  F(nvmlDeviceGetCount_v2, (uint32_t * count))                        \
  F(nvmlDeviceGetHandleByIndex_v2, (uint32_t index, Device * device)) \
  F(nvmlDeviceGetUUID, (Device device, char* uuid, uint32_t size))    \
  F(nvmlDeviceGetName, (Device device, char* name, uint32_t size))

// Optional functions; without one, its values are omitted.
#define JOBSCOPE_NVML_OPTIONAL(F)                                                          \
  F(nvmlSystemGetDriverVersion, (char* version, uint32_t size))                            \
  F(nvmlSystemGetCudaDriverVersion_v2, (int32_t * version))                                \
  F(nvmlDeviceGetHandleByUUID, (const char* uuid, Device* device))                         \
  F(nvmlDeviceGetIndex, (Device device, uint32_t * index))                                 \
  F(nvmlDeviceGetPciInfo_v3, (Device device, PciInfo * info))                              \
  F(nvmlDeviceGetCudaComputeCapability, (Device device, int32_t * major, int32_t * minor)) \
  F(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, (Device mig, Device * device))           \
  F(nvmlDeviceGetUtilizationRates, (Device device, Utilization * utilization))             \
  F(nvmlDeviceGetMemoryInfo, (Device device, Memory * memory))                             \
  F(nvmlDeviceGetPowerUsage, (Device device, uint32_t * milliwatts))                       \
  F(nvmlDeviceGetClockInfo, (Device device, uint32_t type, uint32_t * megahertz))          \
  F(nvmlDeviceGetTemperature, (Device device, uint32_t sensor, uint32_t * celsius))        \
  F(nvmlDeviceGetCurrentClocksEventReasons, (Device device, uint64_t * reasons))           \
  F(nvmlDeviceGetCurrentClocksThrottleReasons, (Device device, uint64_t * reasons))

// The functions of one libnvidia-ml. The library is never unloaded, so the table lives for ever.
struct Api {
#define JOBSCOPE_DECLARE(name, parameters) Result(*name) parameters = nullptr;
  JOBSCOPE_NVML_REQUIRED(JOBSCOPE_DECLARE)
  JOBSCOPE_NVML_OPTIONAL(JOBSCOPE_DECLARE)
#undef JOBSCOPE_DECLARE
};

inline constexpr const char* kLibraryName = "libnvidia-ml.so.1";

struct Loaded {
  const Api* api = nullptr;  // null: see `reason`
  std::string reason;
  bool absent = false;  // no such library: no driver
};

// Opens the library and finds its functions. Acquires the loader's lock, reads the disk.
Loaded LoadNvml(const std::string& library);

// Returns the meaning, the remedy, and in parentheses call and result.
std::string FailureText(const char* call, Result result);

}  // namespace jobscope::nvml

#endif  // COLLECTORS_NVML_NVML_API_H_
