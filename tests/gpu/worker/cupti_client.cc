// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/worker/cupti_client.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

namespace jobscope::gpu_test {
namespace {

constexpr size_t kBufferBytes = size_t{4} << 20;
constexpr uint32_t kConcurrentKernel = 10;
constexpr uint32_t kKinds[] = {kConcurrentKernel, 1, 2, 5, 4, 17, 38};
constexpr uint32_t kForced = 1;

template <typename Function>
Function Find(void* library, const char* name) {
  void* const found = dlsym(library, name);
  Function function = nullptr;
  std::memcpy(&function, &found, sizeof(found));
  return function;
}

// CUPTI's callbacks carry no pointer.
struct Buffers {
  std::mutex mutex;
  std::set<uint8_t*> ours;
  int32_t (*next)(uint8_t*, size_t, uint8_t**) = nullptr;
  int64_t kernels = 0;
  int64_t foreign = 0;
};
Buffers& buffers() {
  static auto* const buffers = new Buffers;
  return *buffers;
}

void Requested(uint8_t** buffer, size_t* size, size_t* max_records) {
  const std::lock_guard<std::mutex> lock(buffers().mutex);
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = kBufferBytes;
  *max_records = 0;
  buffers().ours.insert(*buffer);
}

void Completed(void* /*context*/, uint32_t /*stream*/, uint8_t* buffer, size_t /*size*/,
               size_t valid) {
  const std::lock_guard<std::mutex> lock(buffers().mutex);
  if (buffers().ours.erase(buffer) == 0) {  // somebody else's
    ++buffers().foreign;
    return;
  }
  uint8_t* record = nullptr;
  while (valid > 0 && buffers().next(buffer, valid, &record) == 0) {
    uint32_t kind = 0;
    std::memcpy(&kind, record, sizeof(kind));
    buffers().kernels += kind == kConcurrentKernel ? 1 : 0;
  }
  std::free(buffer);
}

}  // namespace

std::string CuptiClient::Start(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW);
  if (library == nullptr) return dlerror();
  const auto enable = Find<int32_t (*)(uint32_t)>(library, "cuptiActivityEnable");
  const auto register_callbacks = Find<int32_t (*)(decltype(&Requested), decltype(&Completed))>(
      library, "cuptiActivityRegisterCallbacks");
  buffers().next =
      Find<int32_t (*)(uint8_t*, size_t, uint8_t**)>(library, "cuptiActivityGetNextRecord");
  if (enable == nullptr || register_callbacks == nullptr || buffers().next == nullptr) {
    return path + " is no libcupti";
  }
  buffers().kernels = 0;
  if (const int32_t result = register_callbacks(&Requested, &Completed); result != 0) {
    return "cuptiActivityRegisterCallbacks: result " + std::to_string(result);
  }
  for (const uint32_t kind : kKinds) {
    if (const int32_t result = enable(kind); result != 0 && kind == kConcurrentKernel) {
      return "cuptiActivityEnable: result " + std::to_string(result);
    }
  }
  library_ = library;
  return "";
}

std::string CuptiClient::Stop(int64_t* kernels) {
  if (library_ == nullptr) return "no client traces";
  void* const library = std::exchange(library_, nullptr);
  const int32_t flushed = Find<int32_t (*)(uint32_t)>(library, "cuptiActivityFlushAll")(kForced);
  for (const uint32_t kind : kKinds) {
    (void)Find<int32_t (*)(uint32_t)>(library, "cuptiActivityDisable")(kind);
  }
  const std::lock_guard<std::mutex> lock(buffers().mutex);
  *kernels = buffers().kernels;
  return flushed == 0 ? "" : "cuptiActivityFlushAll: result " + std::to_string(flushed);
}

}  // namespace jobscope::gpu_test
