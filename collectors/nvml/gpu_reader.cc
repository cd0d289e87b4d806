// SPDX-License-Identifier: Apache-2.0
#include "collectors/nvml/gpu_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock/monotonic.h"

namespace jobscope::nvml {
namespace {

// Bounds the GPUs of a machine.
constexpr uint32_t kMaxGpus = 256;
constexpr uint32_t kTextBytes = 96;  // NVML's largest name and UUID

// Bits of GpuReader::unsupported_.
enum Metric : uint32_t {
  kUtilization = 1,
  kMemory = 2,
  kPower = 4,
  kSmClock = 8,
  kMemoryClock = 16,
  kTemperature = 32,
  kLimits = 64,
};

// Terminates and returns a foreign text, whatever NVML wrote.
template <size_t kSize>
std::string Text(std::array<char, kSize>* text) {
  text->back() = '\0';
  return text->data();
}

// Returns whether this GPU, or this process, can never get that value.
bool IsFinal(Result result) {
  return result == kNotSupported || result == kFunctionNotFound || result == kNoPermission;
}

}  // namespace

void CallWatch::Begin(const char* call) {
  begun_ns_.store(static_cast<int64_t>(MonotonicNow()), std::memory_order_relaxed);
  call_.store(call, std::memory_order_release);
}

const char* CallWatch::Running(absl::Duration* since) const {
  const char* const call = call_.load(std::memory_order_acquire);
  if (call == nullptr) return nullptr;
  const int64_t begun_ns = begun_ns_.load(std::memory_order_relaxed);
  *since = absl::Nanoseconds(std::max<int64_t>(0, static_cast<int64_t>(MonotonicNow()) - begun_ns));
  return call;
}

bool GpuChoice::operator==(const GpuChoice& other) const {
  if (cuda_uuids != other.cuda_uuids || visible.has_value() != other.visible.has_value()) {
    return false;
  }
  return !visible.has_value() ||
         std::equal(visible->begin(), visible->end(), other.visible->begin(), other.visible->end(),
                    [](const VisibleDevice& a, const VisibleDevice& b) {
                      return a.index == b.index && a.uuid == b.uuid;
                    });
}

template <typename Function, typename... Arguments>
Result GpuReader::Call(const char* name, Function function, Arguments... arguments) {
  if (function == nullptr) return kFunctionNotFound;
  watch_->Begin(name);
  const Result result = function(arguments...);
  watch_->End();
  return result;
}

Result GpuReader::Open() {
  if (open_) return kSuccess;
  const Result result = Call("nvmlInit_v2", api_->nvmlInit_v2);
  if (result != kSuccess) return result;
  open_ = true;
  std::array<char, kTextBytes> text{};
  if (Call("nvmlSystemGetDriverVersion", api_->nvmlSystemGetDriverVersion, text.data(),
           kTextBytes - 1) == kSuccess) {
    driver_version_ = Text(&text);
  }
  int32_t version = 0;
  if (Call("nvmlSystemGetCudaDriverVersion_v2", api_->nvmlSystemGetCudaDriverVersion_v2,
           &version) == kSuccess) {
    cuda_version_ = version;
  }
  return kSuccess;
}

void GpuReader::Close() {
  gpus_.clear();
  unsupported_.clear();
  lost_.clear();
  if (std::exchange(open_, false)) (void)Call("nvmlShutdown", api_->nvmlShutdown);
}

absl::Status GpuReader::Find(const GpuChoice& choice) {
  gpus_.clear();
  unsupported_.clear();
  lost_.clear();
  notes_.clear();
  // A lookup by UUID touches only that GPU, not its neighbours, which may belong to other jobs.
  if (choice.cuda_uuids.has_value() && api_->nvmlDeviceGetHandleByUUID != nullptr) {
    for (size_t i = 0; i < std::min<size_t>(choice.cuda_uuids->size(), kMaxGpus); ++i) {
      FindByUuid(static_cast<uint32_t>(i), (*choice.cuda_uuids)[i]);
    }
    return absl::OkStatus();
  }
  uint32_t count = 0;
  const Result result = Call("nvmlDeviceGetCount_v2", api_->nvmlDeviceGetCount_v2, &count);
  if (result != kSuccess) {
    return absl::UnavailableError(FailureText("nvmlDeviceGetCount_v2", result));
  }
  count = std::min(count, kMaxGpus);
  if (choice.visible.has_value()) {
    for (const VisibleDevice& visible : *choice.visible) {
      // Like CUDA: an unknown entry hides all that follow.
      if (visible.index.has_value() && *visible.index >= count) break;
      FindByVisible(visible, count);
    }
  } else {
    for (uint32_t index = 0; index < count; ++index) (void)FindByIndex(index);
  }
  return absl::OkStatus();
}

void GpuReader::FindByUuid(uint32_t ordinal, const std::string& uuid) {
  Device device = nullptr;
  Result result = kNotFound;
  for (const bool is_mig : {false, true}) {
    const std::string name = absl::StrCat(is_mig ? "MIG-" : "GPU-", uuid);
    result =
        Call("nvmlDeviceGetHandleByUUID", api_->nvmlDeviceGetHandleByUUID, name.c_str(), &device);
    if (result == kSuccess) return Add(device, is_mig, std::nullopt, ordinal);
  }
  notes_.push_back(absl::StrCat("Cannot read GPU ", ordinal, " of CUDA (", uuid,
                                "): ", FailureText("nvmlDeviceGetHandleByUUID", result)));
}

bool GpuReader::FindByIndex(uint32_t index) {
  Device device = nullptr;
  const Result result =
      Call("nvmlDeviceGetHandleByIndex_v2", api_->nvmlDeviceGetHandleByIndex_v2, index, &device);
  if (result == kSuccess) {
    Add(device, /*is_mig=*/false, index, /*ordinal=*/std::nullopt);
    return true;
  }
  notes_.push_back(absl::StrCat("Cannot read GPU ", index, ": ",
                                FailureText("nvmlDeviceGetHandleByIndex_v2", result)));
  return false;
}

void GpuReader::FindByVisible(const VisibleDevice& visible, uint32_t count) {
  if (visible.index.has_value()) {
    (void)FindByIndex(*visible.index);
    return;
  }
  const std::string uuid = GpuOfOldMigName(visible.uuid);
  Device device = nullptr;
  if (Call("nvmlDeviceGetHandleByUUID", api_->nvmlDeviceGetHandleByUUID, uuid.c_str(), &device) ==
      kSuccess) {
    return Add(device, uuid.compare(0, 4, "MIG-") == 0, std::nullopt, std::nullopt);
  }
  // CUDA also accepts a prefix of a UUID.
  for (uint32_t index = 0; index < count; ++index) {
    std::array<char, kTextBytes> text{};
    if (Call("nvmlDeviceGetHandleByIndex_v2", api_->nvmlDeviceGetHandleByIndex_v2, index,
             &device) != kSuccess ||
        Call("nvmlDeviceGetUUID", api_->nvmlDeviceGetUUID, device, text.data(), kTextBytes - 1) !=
            kSuccess) {
      continue;
    }
    if (Text(&text).compare(0, uuid.size(), uuid) == 0) {
      return Add(device, /*is_mig=*/false, index, /*ordinal=*/std::nullopt);
    }
  }
  notes_.push_back(absl::StrCat(visible.uuid, " of CUDA_VISIBLE_DEVICES is not among the GPUs"));
}

void GpuReader::Add(Device device, bool is_mig, std::optional<uint32_t> index,
                    std::optional<uint32_t> ordinal) {
  Gpu gpu;
  gpu.device = gpu.whole = device;
  gpu.is_mig = is_mig;
  gpu.index = index;
  gpu.ordinal = ordinal;
  if (is_mig) {
    Device whole = nullptr;
    if (Call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle",
             api_->nvmlDeviceGetDeviceHandleFromMigDeviceHandle, device, &whole) == kSuccess) {
      gpu.whole = whole;
    }
  }
  uint32_t number = 0;
  if (!gpu.index.has_value() &&
      Call("nvmlDeviceGetIndex", api_->nvmlDeviceGetIndex, gpu.whole, &number) == kSuccess) {
    gpu.index = number;
  }
  std::array<char, kTextBytes> text{};
  if (Call("nvmlDeviceGetName", api_->nvmlDeviceGetName, device, text.data(), kTextBytes - 1) ==
      kSuccess) {
    gpu.name = Text(&text);
  }
  text = {};
  if (Call("nvmlDeviceGetUUID", api_->nvmlDeviceGetUUID, device, text.data(), kTextBytes - 1) ==
      kSuccess) {
    gpu.uuid = Text(&text);
  }
  PciInfo pci{};
  if (Call("nvmlDeviceGetPciInfo_v3", api_->nvmlDeviceGetPciInfo_v3, gpu.whole, &pci) == kSuccess) {
    pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
    gpu.pci_bus_id = pci.bus_id;
  }
  int32_t major = 0;
  int32_t minor = 0;
  if (Call("nvmlDeviceGetCudaComputeCapability", api_->nvmlDeviceGetCudaComputeCapability,
           gpu.whole, &major, &minor) == kSuccess) {
    gpu.compute_major = major;
    gpu.compute_minor = minor;
  }
  gpus_.push_back(std::make_shared<const Gpu>(std::move(gpu)));
  unsupported_.push_back(0);
  lost_.push_back(false);
}

template <typename Function, typename... Arguments>
bool GpuReader::Ask(size_t gpu, uint32_t metric, Reading* reading, const char* name,
                    Function function, Arguments... arguments) {
  if (lost_[gpu] || (unsupported_[gpu] & metric) != 0) return false;
  const Result result = Call(name, function, arguments...);
  if (result == kSuccess) return true;
  if (IsFinal(result)) {
    unsupported_[gpu] |= metric;
    return false;
  }
  ++reading->failed;
  reading->failure = FailureText(name, result);
  if (result == kGpuIsLost || result == kResetRequired) lost_[gpu] = true;
  return false;
}

Reading GpuReader::Read(size_t index) {
  const Gpu& gpu = *gpus_[index];
  Reading reading;
  Utilization utilization{};
  if (Ask(index, kUtilization, &reading, "nvmlDeviceGetUtilizationRates",
          api_->nvmlDeviceGetUtilizationRates, gpu.device, &utilization)) {
    reading.utilization_percent = utilization.gpu;
    reading.memory_utilization_percent = utilization.memory;
  }
  Memory memory{};
  if (Ask(index, kMemory, &reading, "nvmlDeviceGetMemoryInfo", api_->nvmlDeviceGetMemoryInfo,
          gpu.device, &memory)) {
    reading.memory_used_bytes = memory.used;
    reading.memory_total_bytes = memory.total;
  }
  uint32_t number = 0;
  if (Ask(index, kPower, &reading, "nvmlDeviceGetPowerUsage", api_->nvmlDeviceGetPowerUsage,
          gpu.whole, &number)) {
    reading.power_milliwatts = number;
  }
  if (Ask(index, kSmClock, &reading, "nvmlDeviceGetClockInfo", api_->nvmlDeviceGetClockInfo,
          gpu.whole, kClockSm, &number)) {
    reading.sm_clock_mhz = number;
  }
  if (Ask(index, kMemoryClock, &reading, "nvmlDeviceGetClockInfo", api_->nvmlDeviceGetClockInfo,
          gpu.whole, kClockMemory, &number)) {
    reading.memory_clock_mhz = number;
  }
  if (Ask(index, kTemperature, &reading, "nvmlDeviceGetTemperature", api_->nvmlDeviceGetTemperature,
          gpu.whole, kTemperatureGpu, &number)) {
    reading.temperature_celsius = number;
  }
  // Drivers before 535 know only the older name of this function.
  const bool has_new_name = api_->nvmlDeviceGetCurrentClocksEventReasons != nullptr;
  uint64_t limits = 0;
  if (Ask(index, kLimits, &reading,
          has_new_name ? "nvmlDeviceGetCurrentClocksEventReasons"
                       : "nvmlDeviceGetCurrentClocksThrottleReasons",
          has_new_name ? api_->nvmlDeviceGetCurrentClocksEventReasons
                       : api_->nvmlDeviceGetCurrentClocksThrottleReasons,
          gpu.whole, &limits)) {
    reading.limits = limits;
  }
  reading.lost = lost_[index];
  return reading;
}

}  // namespace jobscope::nvml
