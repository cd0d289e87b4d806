// SPDX-License-Identifier: Apache-2.0
//
// CUPTI's own functions.
#include <time.h>

#include <cstring>
#include <iterator>

#include "tests/cuda/fake_cupti/fake_state.h"

using namespace fake_cupti;  // NOLINT: the fake is nothing but this

namespace {

[[maybe_unused]] constexpr int32_t kUnknownError = 999;  // not in the build without newer symbols

// No work in it that has not ended. The end of each kind of work lies at the same place.
bool IsComplete(const Buffer& buffer) {
  constexpr size_t kEnd = 24;
  for (size_t at = 0; at + kEnd + sizeof(uint64_t) <= buffer.used;) {
    uint32_t kind = 0;
    std::memcpy(&kind, buffer.data + at, sizeof(kind));
    uint64_t end_ns = 0;
    std::memcpy(&end_ns, buffer.data + at + kEnd, sizeof(end_ns));
    const bool is_work = kind == 1 || kind == 2 || kind == 3 || kind == 10 || kind == 22;
    if (is_work && end_ns == 0) return false;
    const size_t stride = StrideOf(kind, fake().version);
    if (stride == 0) return true;
    at += stride;
  }
  return true;
}

}  // namespace

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

// As CUPTI: buffers with records that are not complete come back only by force.
EXPORT int32_t cuptiActivityFlushAll(uint32_t flags) {
  if (const int32_t result = Enter("cuptiActivityFlushAll"); result != 0) return result;
  std::vector<Buffer> buffers;
  {
    const std::lock_guard<std::mutex> lock(fake().mutex);
    std::map<std::thread::id, Buffer>& all = fake().buffers;
    for (auto at = all.begin(); at != all.end();) {
      const auto next = std::next(at);
      if (flags != 0 || IsComplete(at->second)) {
        buffers.push_back(at->second);
        all.erase(at);
      }
      at = next;
    }
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
