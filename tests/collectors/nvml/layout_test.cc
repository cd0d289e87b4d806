// SPDX-License-Identifier: Apache-2.0
//
// Our declarations of NVML against NVIDIA's header.
#include <nvml.h>

#include <cstddef>
#ifndef ONLY_LAYOUT
#include <gtest/gtest.h>
#endif
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

#ifndef ONLY_LAYOUT
TEST(NvmlLayoutTest, ConstantsAreNvidias) {
  EXPECT_EQ(kNotSupported, NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(kNoPermission, NVML_ERROR_NO_PERMISSION);
  EXPECT_EQ(kNotFound, NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(kDriverNotLoaded, NVML_ERROR_DRIVER_NOT_LOADED);
  EXPECT_EQ(kFunctionNotFound, NVML_ERROR_FUNCTION_NOT_FOUND);
  EXPECT_EQ(kGpuIsLost, NVML_ERROR_GPU_IS_LOST);
  EXPECT_EQ(kResetRequired, NVML_ERROR_RESET_REQUIRED);
  EXPECT_EQ(kVersionMismatch, NVML_ERROR_LIB_RM_VERSION_MISMATCH);
  EXPECT_EQ(kClockSm, static_cast<uint32_t>(NVML_CLOCK_SM));
  EXPECT_EQ(kClockMemory, static_cast<uint32_t>(NVML_CLOCK_MEM));
  EXPECT_EQ(kTemperatureGpu, static_cast<uint32_t>(NVML_TEMPERATURE_GPU));
  EXPECT_EQ(kLimitSoftwarePowerCap, static_cast<uint64_t>(nvmlClocksThrottleReasonSwPowerCap));
  EXPECT_EQ(kLimitHardwareSlowdown, static_cast<uint64_t>(nvmlClocksThrottleReasonHwSlowdown));
  EXPECT_EQ(kLimitSoftwareThermal,
            static_cast<uint64_t>(nvmlClocksThrottleReasonSwThermalSlowdown));
  EXPECT_EQ(kLimitHardwareThermal,
            static_cast<uint64_t>(nvmlClocksThrottleReasonHwThermalSlowdown));
  EXPECT_EQ(kLimitPowerBrake, static_cast<uint64_t>(nvmlClocksThrottleReasonHwPowerBrakeSlowdown));
}
#endif

}  // namespace
}  // namespace jobscope::nvml
