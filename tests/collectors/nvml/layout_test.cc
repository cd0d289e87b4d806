// SPDX-License-Identifier: Apache-2.0
//
// Our declarations of NVML against NVIDIA's header.
#include <nvml.h>

#include <cstddef>
#include <type_traits>

#include "collectors/nvml/nvml_api.h"
#include "tests/collectors/cuda/same_abi.h"

namespace jobscope::nvml {
namespace {

static_assert(sizeof(Utilization) == sizeof(nvmlUtilization_t));
static_assert(sizeof(Memory) == sizeof(nvmlMemory_t));
static_assert(offsetof(Memory, used) == offsetof(nvmlMemory_t, used));
static_assert(offsetof(Memory, total) == offsetof(nvmlMemory_t, total));
static_assert(sizeof(PciInfo) == sizeof(nvmlPciInfo_t));
static_assert(offsetof(PciInfo, bus_id) == offsetof(nvmlPciInfo_t, busId));
static_assert(sizeof(Result) == sizeof(nvmlReturn_t) && sizeof(Device) == sizeof(nvmlDevice_t));

#define PROTOTYPE(name, parameters) \
  static_assert(SameAbi<decltype(Api::name), decltype(&::name)>(), #name);
JOBSCOPE_NVML_REQUIRED(PROTOTYPE)
JOBSCOPE_NVML_OPTIONAL(PROTOTYPE)
#undef PROTOTYPE

static_assert(kNotSupported == NVML_ERROR_NOT_SUPPORTED);
static_assert(kNoPermission == NVML_ERROR_NO_PERMISSION);
static_assert(kNotFound == NVML_ERROR_NOT_FOUND);
static_assert(kDriverNotLoaded == NVML_ERROR_DRIVER_NOT_LOADED);
static_assert(kFunctionNotFound == NVML_ERROR_FUNCTION_NOT_FOUND);
static_assert(kGpuIsLost == NVML_ERROR_GPU_IS_LOST);
static_assert(kResetRequired == NVML_ERROR_RESET_REQUIRED);
static_assert(kVersionMismatch == NVML_ERROR_LIB_RM_VERSION_MISMATCH);
static_assert(kClockSm == static_cast<uint32_t>(NVML_CLOCK_SM));
static_assert(kClockMemory == static_cast<uint32_t>(NVML_CLOCK_MEM));
static_assert(kTemperatureGpu == static_cast<uint32_t>(NVML_TEMPERATURE_GPU));
static_assert(kLimitSoftwarePowerCap == static_cast<uint64_t>(nvmlClocksThrottleReasonSwPowerCap));
static_assert(kLimitHardwareSlowdown == static_cast<uint64_t>(nvmlClocksThrottleReasonHwSlowdown));
static_assert(kLimitSoftwareThermal ==
              static_cast<uint64_t>(nvmlClocksThrottleReasonSwThermalSlowdown));
static_assert(kLimitHardwareThermal ==
              static_cast<uint64_t>(nvmlClocksThrottleReasonHwThermalSlowdown));
static_assert(kLimitPowerBrake ==
              static_cast<uint64_t>(nvmlClocksThrottleReasonHwPowerBrakeSlowdown));

}  // namespace
}  // namespace jobscope::nvml

int main() { return 0; }
