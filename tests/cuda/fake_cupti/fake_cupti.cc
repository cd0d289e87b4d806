// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/fake_cupti/fake_cupti.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

[[maybe_unused]] constexpr int32_t kUnknownError = 999;  // not in the build without newer symbols

constexpr uint32_t kStateFatalError = 1;

using Requested = void (*)(uint8_t** buffer, size_t* size, size_t* max_records);
using Completed = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size,
                           size_t valid);
using Callback = void (*)(void* userdata, uint32_t domain, uint32_t cbid, const void* data);

struct Failure {
  int32_t result = 0;
  uint64_t after = 0;
};

struct Buffer {
  uint8_t* data = nullptr;
  size_t size = 0;
  size_t used = 0;
};

// FAKE_CUPTI_VERSION, for processes that do not know that this is a fake.
uint32_t FirstVersion() {
  const char* const text = std::getenv("FAKE_CUPTI_VERSION");
  return text == nullptr ? 130001 : static_cast<uint32_t>(std::atoi(text));
}

struct Fake {
  std::mutex mutex;
  std::condition_variable changed;
  uint32_t version = FirstVersion();
  std::map<std::string, Failure> failures;
  std::set<std::string> hangs;
  int hanging = 0;
  std::map<std::string, uint64_t> calls;
  std::set<uint32_t> enabled;
  std::set<uint32_t> domains;  // of callbacks
  std::vector<uint32_t> unified_memory;
  bool subscribed = false;
  Callback callback = nullptr;
  void* userdata = nullptr;
  std::string owner;
  int64_t clock_offset_ns = 0;
  size_t dropped = 0;
  Requested requested = nullptr;
  Completed completed = nullptr;
  std::map<std::thread::id, Buffer> buffers;
};

Fake& fake() {
  static auto* const fake = new Fake;
  return *fake;
}

// What each function does first: counts, hangs, fails.
int32_t Enter(const std::string& function, const std::string& detail = "") {
  Fake& f = fake();
  std::unique_lock<std::mutex> lock(f.mutex);
  const uint64_t before = f.calls[function]++;
  if (f.hangs.count(function) != 0) {
    ++f.hanging;
    f.changed.notify_all();
    f.changed.wait(lock, [&] { return f.hangs.count(function) == 0; });
    --f.hanging;
  }
  std::string with_detail = function;
  with_detail.append(":").append(detail);
  for (const std::string& name : {function, with_detail}) {
    const auto failure = f.failures.find(name);
    if (failure != f.failures.end() && before >= failure->second.after) {
      return failure->second.result;
    }
  }
  return 0;
}

// The newest layout that this version has.
size_t StrideOf(uint32_t kind, uint32_t version) {
  const bool v13 = version >= 130000;
  switch (kind) {
    case 3:
    case 10:
      if (v13) return 216;
      if (version >= 20) return 208;
      if (version >= 18) return 200;
      if (version >= 17) return 176;
      return version >= 15 ? 168 : 160;
    case 1:
      if (version >= 26) return 96;
      if (version >= 17) return 88;
      return version >= 14 ? 80 : 72;
    case 22:
      if (version >= 17) return 96;
      return version >= 14 ? 88 : 80;
    case 2:
      if (version >= 17) return 88;
      return version >= 14 ? 80 : 72;
    case 4:
    case 5:
      return 40;
    case 12:
      return 56;  // a marker, which we have no use for
    case 17:
      if (version >= 22) return 56;
      return version >= 21 ? 48 : 40;
    case 38:
      return version >= 26 ? 56 : 40;
    case 49:
      if (version >= 24) return 128;
      return version >= 17 ? 120 : 112;
    case 51:
      return version >= 21 ? 56 : 48;
    case 25:
      return version >= 26 ? 104 : 64;
    default:
      return 0;
  }
}

Buffer Request() {
  Requested requested;
  {
    const std::lock_guard<std::mutex> lock(fake().mutex);
    requested = fake().requested;
  }
  Buffer buffer;
  if (requested == nullptr) return buffer;
  size_t max_records = 0;
  requested(&buffer.data, &buffer.size, &max_records);
  return buffer;
}

void Complete(const Buffer& buffer, size_t valid) {
  Completed completed;
  {
    const std::lock_guard<std::mutex> lock(fake().mutex);
    completed = fake().completed;
  }
  if (completed != nullptr && buffer.data != nullptr) {
    completed(nullptr, 0, buffer.data, buffer.size, valid);
  }
}

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

// CUPTI's own functions.

EXPORT int32_t cuptiGetVersion(uint32_t* version) {
  const int32_t result = Enter("cuptiGetVersion");
  const std::lock_guard<std::mutex> lock(fake().mutex);
  *version = fake().version;
  return result;
}

EXPORT int32_t cuptiGetResultString(int32_t /*result*/, const char** text) {
  *text = "CUPTI_FAKE";
  return 0;
}

EXPORT int32_t cuptiSubscribe(void** subscriber, Callback callback, void* userdata) {
  *subscriber = nullptr;
  if (const int32_t result = Enter("cuptiSubscribe"); result != 0) return result;
  Fake& f = fake();
  const std::lock_guard<std::mutex> lock(f.mutex);
  if (f.subscribed || !f.owner.empty()) return 39;
  f.subscribed = true;
  f.callback = callback;
  f.userdata = userdata;
  *subscriber = &f;
  return 0;
}

EXPORT int32_t cuptiUnsubscribe(void* subscriber) {
  if (const int32_t result = Enter("cuptiUnsubscribe"); result != 0) return result;
  const std::lock_guard<std::mutex> lock(fake().mutex);
  if (subscriber != &fake() || !fake().subscribed) return 1;
  fake().subscribed = false;
  fake().callback = nullptr;
  fake().domains.clear();
  return 0;
}

EXPORT int32_t cuptiActivityRegisterCallbacks(Requested requested, Completed completed) {
  if (const int32_t result = Enter("cuptiActivityRegisterCallbacks"); result != 0) return result;
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().requested = requested;
  fake().completed = completed;
  return 0;
}

EXPORT int32_t cuptiActivityEnable(uint32_t kind) {
  if (const int32_t result = Enter("cuptiActivityEnable", std::to_string(kind)); result != 0) {
    return result;
  }
  const std::lock_guard<std::mutex> lock(fake().mutex);
  if (StrideOf(kind, fake().version) == 0) return 21;
  fake().enabled.insert(kind);
  return 0;
}

EXPORT int32_t cuptiActivityDisable(uint32_t kind) {
  if (const int32_t result = Enter("cuptiActivityDisable"); result != 0) return result;
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().enabled.erase(kind);
  return 0;
}

EXPORT int32_t cuptiActivityFlushAll(uint32_t /*flags*/) {
  if (const int32_t result = Enter("cuptiActivityFlushAll"); result != 0) return result;
  std::vector<Buffer> buffers;
  {
    const std::lock_guard<std::mutex> lock(fake().mutex);
    for (const auto& [thread, buffer] : fake().buffers) buffers.push_back(buffer);
    fake().buffers.clear();
  }
  for (const Buffer& buffer : buffers) Complete(buffer, buffer.used);
  return 0;
}

EXPORT int32_t cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, uint8_t** record) {
  const uint32_t version = [] {
    const std::lock_guard<std::mutex> lock(fake().mutex);
    return fake().version;
  }();
  uint8_t* next = buffer;
  if (*record != nullptr) {
    uint32_t kind = 0;
    std::memcpy(&kind, *record, sizeof(kind));
    next = *record + StrideOf(kind, version);
  }
  const auto left = static_cast<size_t>(buffer + valid - next);
  if (next >= buffer + valid || left < sizeof(uint32_t)) return 12;
  uint32_t kind = 0;
  std::memcpy(&kind, next, sizeof(kind));
  const size_t stride = StrideOf(kind, version);
  if (stride == 0) return 21;
  if (left < stride) return 12;
  *record = next;
  return 0;
}

EXPORT int32_t cuptiActivityGetNumDroppedRecords(void* /*context*/, uint32_t /*stream*/,
                                                 size_t* dropped) {
  if (const int32_t result = Enter("cuptiActivityGetNumDroppedRecords"); result != 0) {
    return result;
  }
  const std::lock_guard<std::mutex> lock(fake().mutex);
  *dropped = fake().dropped;
  fake().dropped = 0;
  return 0;
}

EXPORT int32_t cuptiGetTimestamp(uint64_t* timestamp) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::lock_guard<std::mutex> lock(fake().mutex);
  *timestamp =
      static_cast<uint64_t>(now.tv_sec * 1'000'000'000 + now.tv_nsec + fake().clock_offset_ns);
  return 0;
}

#ifndef FAKE_CUPTI_BARE  // what an old CUPTI does not have

EXPORT int32_t cuptiGetCallbackName(uint32_t domain, uint32_t cbid, const char** name) {
  if (domain == 2) {
    switch (cbid) {
      case 211:
        *name = "cudaLaunchKernel_v7000";
        return 0;
      case 41:
        *name = "cudaMemcpyAsync_v3020";
        return 0;
      case 131:
        *name = "cudaStreamSynchronize_v3020";
        return 0;
      case 315:
        *name = "cudaStreamBeginCapture_v10000";
        return 0;
      case 319:
        *name = "cudaStreamEndCapture_v10000";
        return 0;
      case 311:
        *name = "cudaGraphLaunch_v10000";
        return 0;
      default:
        return 1;
    }
  }
  if (domain == 1 && cbid == 307) {
    *name = "cuLaunchKernel";
    return 0;
  }
  return 1;
}

EXPORT int32_t cuptiSetThreadIdType(uint32_t /*type*/) { return Enter("cuptiSetThreadIdType"); }

EXPORT int32_t cuptiEnableDomain(uint32_t enable, void* /*subscriber*/, uint32_t domain) {
  if (const int32_t result = Enter("cuptiEnableDomain", std::to_string(domain)); result != 0) {
    return result;
  }
  const std::lock_guard<std::mutex> lock(fake().mutex);
  if (enable != 0) {
    fake().domains.insert(domain);
  } else {
    fake().domains.erase(domain);
  }
  return 0;
}

EXPORT int32_t cuptiFinalize() {
  if (const int32_t result = Enter("cuptiFinalize"); result != 0) return result;
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().enabled.clear();
  fake().domains.clear();
  return 0;
}

struct FakeUnifiedMemoryConfig {
  uint32_t scope, kind, device, enable;
};

EXPORT int32_t cuptiActivityConfigureUnifiedMemoryCounter(FakeUnifiedMemoryConfig* configs,
                                                          uint32_t count) {
  if (const int32_t result = Enter("cuptiActivityConfigureUnifiedMemoryCounter"); result != 0) {
    return result;
  }
  const std::lock_guard<std::mutex> lock(fake().mutex);
  for (uint32_t i = 0; i < count; ++i) {
    if (configs[i].enable != 0) fake().unified_memory.push_back(configs[i].kind);
  }
  return 0;
}

EXPORT int32_t cuptiGetErrorMessage(const char** message) {
  *message = nullptr;
  return kUnknownError;
}

struct FakeSubscriberParams {
  size_t struct_size;
  const char* name;
  char* old_name;
  size_t old_name_size;
};

EXPORT int32_t cuptiSubscribe_v2(void** subscriber, Callback callback, void* userdata,
                                 FakeSubscriberParams* params) {
  Fake& f = fake();
  {
    const std::lock_guard<std::mutex> lock(f.mutex);
    if (!f.owner.empty()) {
      if (params->old_name != nullptr && params->old_name_size > f.owner.size()) {
        std::memcpy(params->old_name, f.owner.c_str(), f.owner.size() + 1);
      }
      return 39;
    }
  }
  return cuptiSubscribe(subscriber, callback, userdata);
}

EXPORT int32_t cuptiActivityEnableDriverApi(uint32_t /*cbid*/, uint8_t /*enable*/) {
  return Enter("cuptiActivityEnableDriverApi");
}

EXPORT int32_t cuptiActivityEnableRuntimeApi(uint32_t /*cbid*/, uint8_t /*enable*/) {
  return Enter("cuptiActivityEnableRuntimeApi");
}

#endif  // FAKE_CUPTI_BARE
