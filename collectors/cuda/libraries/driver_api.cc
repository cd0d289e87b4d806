// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/libraries/driver_api.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "collectors/cuda/libraries/driver_functions.h"
#include "common/process/loaded_libraries.h"

namespace jobscope::cuda {
namespace {

constexpr const char* kDriverLibrary = "libcuda.so.1";
LibraryPresence driver_presence("libcuda.so");

// CUresult
constexpr int kSuccess = 0;
constexpr int kNotInitializedError = 3;
constexpr int kNoDeviceError = 100;

// CUdevice_attribute; a test compares the values with NVIDIA's header if available.
constexpr int kClockRate = 13;
constexpr int kMultiprocessorCount = 16;
constexpr int kMemoryClockRate = 36;
constexpr int kMemoryBusWidth = 37;
constexpr int kMaxThreadsPerMultiprocessor = 39;
constexpr int kComputeMajor = 75;
constexpr int kComputeMinor = 76;
constexpr int kSharedPerMultiprocessor = 81;
constexpr int kRegistersPerMultiprocessor = 82;
constexpr int kMaxBlocksPerMultiprocessor = 106;
constexpr int kReservedSharedPerBlock = 111;

// Finds the driver's functions; null without libcuda. Closes its own handle: libcuda stays loaded
// by its other users.
bool FindDriver(DriverFunctions* driver) {
  // Without libcuda, dlopen would search the disk, and would wait while another library is being
  // loaded.
  if (!DriverIsLoaded()) return false;
  void* const library = dlopen(kDriverLibrary, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  const auto find = [library](const char* name, auto* function) {
    void* const found = dlsym(library, name);
    static_assert(sizeof(found) == sizeof(*function));
    std::memcpy(function, &found, sizeof(found));
  };
#define JOBSCOPE_FIND(name, parameters) find(#name, &driver->name);
  JOBSCOPE_DRIVER_FUNCTIONS(JOBSCOPE_FIND)
#undef JOBSCOPE_FIND
  // Fallback to the first version, which does not distinguish MIG instances.
  if (driver->cuDeviceGetUuid_v2 == nullptr) find("cuDeviceGetUuid", &driver->cuDeviceGetUuid_v2);
  // Users of the driver never unload it, and its functions are called immediately.
  dlclose(library);
  return true;
}

}  // namespace

bool DriverIsLoaded() { return driver_presence.IsLoaded(); }
bool DriverIsKnownLoaded() { return driver_presence.IsKnownLoaded(); }

DriverState StateWithoutDriver() {
  const bool is_installed = access("/proc/driver/nvidia/version", F_OK) == 0 ||
                            access("/dev/nvidiactl", F_OK) == 0 ||
                            access("/dev/dxg", F_OK) == 0;  // under WSL
  DriverState state;
  state.use = is_installed ? DriverState::kNotLoaded : DriverState::kNoDriver;
  return state;
}

DriverState QueryDriver() {
  DriverState state;
  DriverFunctions driver;
  if (!FindDriver(&driver)) return StateWithoutDriver();
  if (driver.cuDriverGetVersion != nullptr) (void)driver.cuDriverGetVersion(&state.driver_version);
  // Answers without initialising anything: 3 means that nobody has initialised CUDA.
  const int error = driver.cuDeviceGetCount == nullptr
                        ? kNotInitializedError
                        : driver.cuDeviceGetCount(&state.device_count);
  switch (error) {
    case kSuccess:
      state.use = state.device_count > 0 ? DriverState::kInUse : DriverState::kNoDevice;
      break;
    case kNotInitializedError:
      state.use = DriverState::kNotInitialized;
      break;
    case kNoDeviceError:
      state.use = DriverState::kNoDevice;
      break;
    default:
      state.use = DriverState::kFailed;
      state.error = error;
  }
  return state;
}

std::string DriverReason(const DriverState& state) {
  switch (state.use) {
    case DriverState::kNoDriver:
      return "no NVIDIA driver on this machine, or none visible in this container";
    case DriverState::kNotLoaded:
    case DriverState::kNotInitialized:
      return "this process has not used CUDA";
    case DriverState::kNoDevice:
      return "CUDA finds no GPU in this process; look at CUDA_VISIBLE_DEVICES";
    case DriverState::kFailed:
      return "the CUDA driver answers with error " + std::to_string(state.error) +
             (state.error == 999
                  ? " (unknown); a GPU may have been lost: look for Xid lines in dmesg"
                  : "");
    case DriverState::kInUse:
      break;
  }
  return "";
}

std::optional<DeviceInfo> QueryDevice(int ordinal) {
  DriverFunctions driver;
  if (!FindDriver(&driver) || driver.cuDeviceGet == nullptr ||
      driver.cuDeviceGetAttribute == nullptr) {
    return std::nullopt;
  }
  int device = 0;
  if (driver.cuDeviceGet(&device, ordinal) != kSuccess) return std::nullopt;
  DeviceInfo info;
  char name[256] = {};
  if (driver.cuDeviceGetName != nullptr &&
      driver.cuDeviceGetName(name, sizeof(name) - 1, device) == kSuccess) {
    info.name = name;
  }
  size_t memory = 0;
  if (driver.cuDeviceTotalMem_v2 != nullptr &&
      driver.cuDeviceTotalMem_v2(&memory, device) == kSuccess) {
    info.memory_bytes = memory;
  }
  const auto attribute = [&](int which) {
    int value = 0;
    return driver.cuDeviceGetAttribute(&value, which, device) == kSuccess ? value : 0;
  };
  info.compute_major = attribute(kComputeMajor);
  info.compute_minor = attribute(kComputeMinor);
  info.core_clock_khz = attribute(kClockRate);
  info.memory_clock_khz = attribute(kMemoryClockRate);
  info.memory_bus_bits = attribute(kMemoryBusWidth);
  info.multiprocessors = attribute(kMultiprocessorCount);
  info.max_threads_per_multiprocessor = attribute(kMaxThreadsPerMultiprocessor);
  info.max_blocks_per_multiprocessor = attribute(kMaxBlocksPerMultiprocessor);
  info.registers_per_multiprocessor = attribute(kRegistersPerMultiprocessor);
  info.shared_bytes_per_multiprocessor = attribute(kSharedPerMultiprocessor);
  info.reserved_shared_bytes_per_block = attribute(kReservedSharedPerBlock);
  return info;
}

std::optional<std::vector<std::string>> QueryDeviceUuids() {
  const DriverState state = QueryDriver();
  DriverFunctions driver;
  if (state.use != DriverState::kInUse || !FindDriver(&driver) || driver.cuDeviceGet == nullptr ||
      driver.cuDeviceGetUuid_v2 == nullptr) {
    return std::nullopt;
  }
  std::vector<std::string> uuids;
  for (int ordinal = 0; ordinal < state.device_count; ++ordinal) {
    int device = 0;
    std::array<uint8_t, 16> bytes{};
    if (driver.cuDeviceGet(&device, ordinal) != kSuccess ||
        driver.cuDeviceGetUuid_v2(bytes.data(), device) != kSuccess) {
      return std::nullopt;
    }
    std::string text;
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (i == 4 || i == 6 || i == 8 || i == 10) text.push_back('-');
      char digits[3];
      std::snprintf(digits, sizeof(digits), "%02x", bytes[i]);
      text.append(digits);
    }
    uuids.push_back(std::move(text));
  }
  return uuids;
}

}  // namespace jobscope::cuda
