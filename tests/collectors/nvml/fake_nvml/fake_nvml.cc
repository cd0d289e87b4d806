// SPDX-License-Identifier: Apache-2.0
#include "tests/collectors/nvml/fake_nvml/fake_nvml.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int32_t kInvalidArgument = 2;
// Not in the build without newer symbols.
[[maybe_unused]] constexpr int32_t kNotSupported = 3;
[[maybe_unused]] constexpr int32_t kNotFound = 6;
constexpr int32_t kGpuIsLost = 15;
constexpr uint32_t kMaxGpus = 16;
constexpr auto kAwhile = std::chrono::seconds(10);

struct FakeDevice {
  uint32_t number = 0;
  bool is_mig = false;
};

// FAKE_NVML_GPUS, for processes that do not know that this is a fake.
uint32_t FirstGpus() {
  const char* const text = std::getenv("FAKE_NVML_GPUS");
  return text == nullptr ? 2 : static_cast<uint32_t>(std::atoi(text));
}

// FAKE_NVML_HANG: a function that does not return, likewise.
std::set<std::string> FirstHangs() {
  const char* const text = std::getenv("FAKE_NVML_HANG");
  return text == nullptr ? std::set<std::string>() : std::set<std::string>{text};
}

struct Fake {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<uint32_t> gpus{FirstGpus()};
  FakeDevice devices[kMaxGpus];
  FakeDevice mig;
  std::atomic<bool> has_mig{false};
  std::atomic<uint32_t> mig_digits{0};
  std::map<std::pair<std::string, int32_t>, int32_t> failures;
  std::set<std::string> hangs = FirstHangs();
  int hanging = 0;
  std::map<std::string, uint64_t> calls;
  uint64_t all_calls = 0;
  std::set<uint32_t> lost;
  int open = 0;
  std::atomic<uint64_t> limits{0};
};

Fake& fake() {
  static auto* const fake = [] {
    auto* const made = new Fake;
    for (uint32_t i = 0; i < kMaxGpus; ++i) made->devices[i].number = i;
    made->mig.is_mig = true;
    return made;
  }();
  return *fake;
}

// What each function does first: counts, hangs, fails.
int32_t Enter(const char* function, const void* device = nullptr) {
  Fake& f = fake();
  std::unique_lock<std::mutex> lock(f.mutex);
  ++f.calls[function];
  ++f.all_calls;
  f.changed.notify_all();
  if (f.hangs.count(function) != 0) {
    ++f.hanging;
    f.changed.notify_all();
    f.changed.wait(lock, [&] { return f.hangs.count(function) == 0; });
    --f.hanging;
  }
  const auto* const gpu = static_cast<const FakeDevice*>(device);
  if (gpu != nullptr && f.lost.count(gpu->number) != 0) return kGpuIsLost;
  for (const int32_t number : {-1, gpu == nullptr ? -1 : static_cast<int32_t>(gpu->number)}) {
    const auto failure = f.failures.find({function, number});
    if (failure != f.failures.end()) return failure->second;
  }
  return 0;
}

std::string Uuid(const char* prefix, uint32_t number) {
  char text[64];
  std::snprintf(text, sizeof(text), "%sa0a1a2a3-a4a5-a6a7-a8a9-aaabacadae%02x", prefix, number);
  return text;
}

uint32_t Number(const void* device) { return static_cast<const FakeDevice*>(device)->number; }

bool IsMig(const void* device) { return static_cast<const FakeDevice*>(device)->is_mig; }

int32_t Copy(const std::string& from, char* to, uint32_t size) {
  if (from.size() >= size) return 7;
  std::memcpy(to, from.c_str(), from.size() + 1);
  return 0;
}

}  // namespace

EXPORT void FakeNvmlReset(uint32_t gpus) {
  Fake& f = fake();
  const std::lock_guard<std::mutex> lock(f.mutex);
  f.gpus = gpus;
  f.has_mig = false;
  f.failures.clear();
  f.hangs.clear();
  f.calls.clear();
  f.all_calls = 0;
  f.lost.clear();
  f.limits = 0;
  f.changed.notify_all();
}
EXPORT void FakeNvmlFail(const char* function, int32_t gpu, int32_t result) {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().failures[{function, gpu}] = result;
}
EXPORT void FakeNvmlHang(const char* function) {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().hangs.insert(function);
}
EXPORT void FakeNvmlRelease() {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().hangs.clear();
  fake().changed.notify_all();
}
EXPORT int FakeNvmlAwaitHang() {
  std::unique_lock<std::mutex> lock(fake().mutex);
  return fake().changed.wait_for(lock, kAwhile, [] { return fake().hanging > 0; }) ? 1 : 0;
}
EXPORT uint64_t FakeNvmlCalls(const char* function) {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  return function[0] == '\0' ? fake().all_calls : fake().calls[function];
}
EXPORT int FakeNvmlAwaitCalls(const char* function, uint64_t calls) {
  std::unique_lock<std::mutex> lock(fake().mutex);
  return fake().changed.wait_for(lock, kAwhile, [&] { return fake().calls[function] >= calls; })
             ? 1
             : 0;
}
EXPORT int FakeNvmlOpen() {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  return fake().open;
}
EXPORT void FakeNvmlLose(uint32_t gpu) {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().lost.insert(gpu);
}
EXPORT void FakeNvmlSetLimits(uint64_t reasons) {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().limits = reasons;
}
EXPORT void FakeNvmlAddMig(uint32_t digits) {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().has_mig = true;
  fake().mig_digits = digits;
}

// NVML's own functions.

EXPORT int32_t nvmlInit_v2() {
  const int32_t result = Enter("nvmlInit_v2");
  const std::lock_guard<std::mutex> lock(fake().mutex);
  if (result == 0) ++fake().open;
  return result;
}
EXPORT int32_t nvmlShutdown() {
  const int32_t result = Enter("nvmlShutdown");
  const std::lock_guard<std::mutex> lock(fake().mutex);
  --fake().open;
  fake().changed.notify_all();
  return result;
}
EXPORT int32_t nvmlDeviceGetCount_v2(uint32_t* count) {
  const int32_t result = Enter("nvmlDeviceGetCount_v2");
  *count = fake().gpus;
  return result;
}
EXPORT int32_t nvmlDeviceGetHandleByIndex_v2(uint32_t index, void** device) {
  if (index >= fake().gpus) return kInvalidArgument;
  *device = &fake().devices[index];
  return Enter("nvmlDeviceGetHandleByIndex_v2", *device);
}
EXPORT int32_t nvmlDeviceGetName(void* device, char* name, uint32_t size) {
  if (const int32_t result = Enter("nvmlDeviceGetName", device); result != 0) return result;
  return Copy(IsMig(device) ? "Fake H100 MIG 1g.10gb" : "Fake H100", name, size);
}
EXPORT int32_t nvmlDeviceGetUUID(void* device, char* uuid, uint32_t size) {
  if (const int32_t result = Enter("nvmlDeviceGetUUID", device); result != 0) return result;
  return Copy(IsMig(device) ? Uuid("MIG-", fake().mig_digits) : Uuid("GPU-", Number(device)), uuid,
              size);
}

#ifndef FAKE_NVML_OLD  // what an old driver does not have

EXPORT int32_t nvmlSystemGetDriverVersion(char* version, uint32_t size) {
  if (const int32_t result = Enter("nvmlSystemGetDriverVersion"); result != 0) return result;
  return Copy("580.65.06", version, size);
}
EXPORT int32_t nvmlSystemGetCudaDriverVersion_v2(int32_t* version) {
  *version = 13000;
  return Enter("nvmlSystemGetCudaDriverVersion_v2");
}
EXPORT int32_t nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (const int32_t result = Enter("nvmlDeviceGetHandleByUUID"); result != 0) return result;
  for (uint32_t i = 0; i < fake().gpus; ++i) {
    if (Uuid("GPU-", i) != uuid) continue;
    *device = &fake().devices[i];
    return 0;
  }
  if (fake().has_mig && Uuid("MIG-", fake().mig_digits) == uuid) {
    *device = &fake().mig;
    return 0;
  }
  return kNotFound;
}
EXPORT int32_t nvmlDeviceGetIndex(void* device, uint32_t* index) {
  *index = Number(device);
  return Enter("nvmlDeviceGetIndex", device);
}
struct FakePciInfo {
  char legacy[16];
  uint32_t numbers[5];
  char bus_id[32];
};
EXPORT int32_t nvmlDeviceGetPciInfo_v3(void* device, FakePciInfo* info) {
  std::snprintf(info->bus_id, sizeof(info->bus_id), "00000000:%02X:00.0", 0x10 + Number(device));
  return Enter("nvmlDeviceGetPciInfo_v3", device);
}
EXPORT int32_t nvmlDeviceGetCudaComputeCapability(void* device, int32_t* major, int32_t* minor) {
  *major = 9;
  *minor = 0;
  return Enter("nvmlDeviceGetCudaComputeCapability", device);
}
EXPORT int32_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void* mig, void** device) {
  *device = &fake().devices[0];
  return Enter("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", mig);
}
struct FakeUtilization {
  uint32_t gpu, memory;
};
EXPORT int32_t nvmlDeviceGetUtilizationRates(void* device, FakeUtilization* utilization) {
  if (IsMig(device)) return kNotSupported;
  utilization->gpu = 10 + Number(device);
  utilization->memory = 20 + Number(device);
  return Enter("nvmlDeviceGetUtilizationRates", device);
}
struct FakeMemory {
  uint64_t total, free, used;
};
EXPORT int32_t nvmlDeviceGetMemoryInfo(void* device, FakeMemory* memory) {
  memory->total = (uint64_t{IsMig(device) ? 10u : 80u}) << 30;
  memory->used = (uint64_t{3} + Number(device)) << 30;
  memory->free = memory->total - memory->used;
  return Enter("nvmlDeviceGetMemoryInfo", device);
}
EXPORT int32_t nvmlDeviceGetPowerUsage(void* device, uint32_t* milliwatts) {
  *milliwatts = 350'500 + Number(device);
  return Enter("nvmlDeviceGetPowerUsage", device);
}
EXPORT int32_t nvmlDeviceGetClockInfo(void* device, uint32_t type, uint32_t* megahertz) {
  *megahertz = type == 1 ? 1980 : 2619;
  return Enter("nvmlDeviceGetClockInfo", device);
}
EXPORT int32_t nvmlDeviceGetTemperature(void* device, uint32_t /*sensor*/, uint32_t* celsius) {
  *celsius = 54;
  return Enter("nvmlDeviceGetTemperature", device);
}
EXPORT int32_t nvmlDeviceGetCurrentClocksThrottleReasons(void* device, uint64_t* reasons) {
  *reasons = fake().limits;
  return Enter("nvmlDeviceGetCurrentClocksThrottleReasons", device);
}
#ifndef FAKE_NVML_BEFORE_535
EXPORT int32_t nvmlDeviceGetCurrentClocksEventReasons(void* device, uint64_t* reasons) {
  *reasons = fake().limits;
  return Enter("nvmlDeviceGetCurrentClocksEventReasons", device);
}
#endif

#endif  // FAKE_NVML_OLD
