// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstring>

#include "tests/cuda/fake_cupti/fake_cupti.h"
#include "tests/cuda/fake_cupti/fake_state.h"

using namespace fake_cupti;  // NOLINT: the fake is nothing but this

namespace {

constexpr uint32_t kStateFatalError = 1;

}  // namespace

EXPORT void FakeCuptiReset(uint32_t version) {
  Fake& f = fake();
  const std::lock_guard<std::mutex> lock(f.mutex);
  f.version = version;
  f.failures.clear();
  f.hangs.clear();
  f.calls.clear();
  f.enabled.clear();
  f.domains.clear();
  f.unified_memory.clear();
  f.subscribed = false;
  f.owner.clear();
  f.clock_offset_ns = 0;
  f.dropped = 0;
  f.buffers.clear();
  f.changed.notify_all();
}

EXPORT void FakeCuptiFail(const char* function, int32_t result, uint32_t after) {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().failures[function] = {result, after};
}

EXPORT void FakeCuptiHang(const char* function) {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().hangs.insert(function);
}

EXPORT void FakeCuptiRelease() {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().hangs.clear();
  fake().changed.notify_all();
}

EXPORT int FakeCuptiAwaitHang() {
  std::unique_lock<std::mutex> lock(fake().mutex);
  return fake().changed.wait_for(lock, std::chrono::seconds(10), [] { return fake().hanging > 0; })
             ? 1
             : 0;
}

EXPORT uint64_t FakeCuptiCalls(const char* function) {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  return fake().calls[function];
}

EXPORT int FakeCuptiIsEnabled(uint32_t kind) {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  return static_cast<int>(fake().enabled.count(kind));
}

EXPORT int FakeCuptiIsSubscribed() {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  return fake().subscribed ? 1 : 0;
}

EXPORT void FakeCuptiSetOwner(const char* name) {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().owner = name;
}

EXPORT void FakeCuptiSetClockOffset(int64_t ns) {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().clock_offset_ns = ns;
}

EXPORT void FakeCuptiAddDropped(size_t records) {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().dropped += records;
}

EXPORT void FakeCuptiReportState(uint32_t cbid, int32_t result, const char* message) {
  Callback callback;
  void* userdata;
  {
    const std::lock_guard<std::mutex> lock(fake().mutex);
    callback = fake().callback;
    userdata = fake().userdata;
    if (cbid == kStateFatalError) {  // as NVIDIA says: it finalizes itself
      fake().subscribed = false;
      fake().callback = nullptr;
      fake().enabled.clear();
      fake().domains.clear();
    }
  }
  struct {
    int32_t result;
    const char* message;
  } data{result, message};
  if (callback != nullptr) callback(userdata, 6, cbid, &data);
}

EXPORT int FakeCuptiApiCall(uint32_t domain) {
  int told = 0;
  for (const uint32_t site : {0u, 1u}) {
    Callback callback = nullptr;
    void* userdata = nullptr;
    {
      const std::lock_guard<std::mutex> lock(fake().mutex);
      if (fake().domains.count(domain) != 0) callback = fake().callback;
      userdata = fake().userdata;
    }
    if (callback == nullptr) continue;
    const struct {
      uint32_t site;
      const char* name;
    } data{site, "cudaLaunchKernel"};
    callback(userdata, domain, 1, &data);
    ++told;
  }
  return told;
}

EXPORT int FakeCuptiUnifiedMemoryCounters() {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  return static_cast<int>(fake().unified_memory.size());
}

EXPORT int FakeCuptiEmit(const void* record, size_t bytes) {
  uint32_t kind = 0;
  std::memcpy(&kind, record, sizeof(kind));
  Fake& f = fake();
  Buffer full;
  Buffer current;
  {
    const std::lock_guard<std::mutex> lock(f.mutex);
    if (f.enabled.count(kind) == 0) return 0;
    Buffer& own = f.buffers[std::this_thread::get_id()];
    if (own.data != nullptr && own.used + bytes > own.size) std::swap(full, own);
    current = own;
  }
  if (full.data != nullptr) Complete(full, full.used);
  if (current.data == nullptr) current = Request();
  if (current.data == nullptr) {
    FakeCuptiAddDropped(1);
    return 0;
  }
  std::memcpy(current.data + current.used, record, bytes);
  current.used += bytes;
  const std::lock_guard<std::mutex> lock(f.mutex);
  f.buffers[std::this_thread::get_id()] = current;
  return 1;
}

EXPORT int FakeCuptiDeliver(const void* bytes, size_t size) {
  const Buffer buffer = Request();
  if (buffer.data == nullptr) return 0;
  const size_t valid = std::min(size, buffer.size);
  if (valid > 0) std::memcpy(buffer.data, bytes, valid);
  Complete(buffer, valid);
  return 1;
}

EXPORT void* FakeCuptiTake() { return Request().data; }

EXPORT void FakeCuptiReturn(void* buffer, const void* bytes, size_t size) {
  Buffer back;
  back.data = static_cast<uint8_t*>(buffer);
  back.size = size;
  if (size > 0) std::memcpy(buffer, bytes, size);
  Complete(back, size);
}
