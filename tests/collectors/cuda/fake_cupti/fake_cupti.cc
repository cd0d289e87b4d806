// SPDX-License-Identifier: Apache-2.0
//
// CUPTI's own functions.
#include <time.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "collectors/cuda/libraries/cupti_api.h"
#include "tests/collectors/cuda/fake_cupti/fake_state.h"
#include "tests/collectors/cuda/same_abi.h"

using namespace fake_cupti;  // NOLINT: the fake is nothing but this

namespace {

using jobscope::cuda::CuptiApi;

bool IsEnabled(uint32_t kind) {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  return fake().enabled.count(kind) != 0;
}

}  // namespace

EXPORT int32_t cuptiGetVersion(uint32_t* version) {
#ifndef FAKE_CUPTI_BARE
  // As 13.2 on a driver that is too old for it: any first call ends the process.
  if (std::getenv("FAKE_CUPTI_CANNOT_START") != nullptr) std::abort();
#endif
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
  if (f.subscribed || f.owned) return 39;
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

// As CUPTI: work that has not ended when its kind is disabled gets no times any more.
EXPORT int32_t cuptiActivityDisable(uint32_t kind) {
  if (const int32_t result = Enter("cuptiActivityDisable"); result != 0) return result;
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().enabled.erase(kind);
  std::map<uint64_t, Pending>& pending = fake().pending;
  for (auto at = pending.begin(); at != pending.end();) {
    at = at->second.kind == kind ? pending.erase(at) : std::next(at);
  }
  return 0;
}

// As CUPTI: a buffer with work in it that has not ended comes back only by force, and with it all
// records beside that work, such as the call that launched it.
EXPORT int32_t cuptiActivityFlushAll(uint32_t flags) {
  const bool traces = IsEnabled(jobscope::cuda::kKindConcurrentKernel);
  const char* const detail = flags == 0 ? ""
                             : traces   ? "forced while kernels are traced"
                                        : "forced";
  if (const int32_t result = Enter("cuptiActivityFlushAll", detail); result != 0) return result;
  std::vector<Buffer> buffers;
  std::vector<uint8_t> held_back;
  {
    Fake& f = fake();
    const std::lock_guard<std::mutex> lock(f.mutex);
    if (!f.held_back.empty()) {
      held_back = std::move(f.held_back.front());
      f.held_back.pop_front();
    }
    const auto comes = [&](const Buffer& buffer) {
      return flags != 0 || IsComplete(buffer, f.version);
    };
    for (auto at = f.full.begin(); at != f.full.end();) {
      if (comes(*at)) buffers.push_back(*at);
      at = comes(*at) ? f.full.erase(at) : std::next(at);
    }
    for (auto at = f.buffers.begin(); at != f.buffers.end();) {
      if (comes(at->second)) buffers.push_back(at->second);
      at = comes(at->second) ? f.buffers.erase(at) : std::next(at);
    }
  }
  for (const Buffer& buffer : buffers) Complete(buffer, buffer.used);
  const Buffer buffer = held_back.empty() ? Buffer() : Request();
  if (buffer.data == nullptr) return 0;
  std::memcpy(buffer.data, held_back.data(), held_back.size());
  Complete(buffer, held_back.size());
  return 0;
}

EXPORT int32_t cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, uint8_t** record) {
  (void)Enter("cuptiActivityGetNextRecord");
  const auto bytes_at = [](const uint8_t* at) -> size_t {
    uint32_t kind = 0;
    std::memcpy(&kind, at, sizeof(kind));
    const std::lock_guard<std::mutex> lock(fake().mutex);
    const auto set = fake().record_bytes.find(kind);
    return set != fake().record_bytes.end() ? set->second : StrideOf(kind, fake().version);
  };
  const size_t before = *record == nullptr ? 0 : static_cast<size_t>(*record - buffer);
  const size_t at = *record == nullptr ? 0 : before + bytes_at(*record);
  if (at >= valid || valid - at < sizeof(uint32_t)) return 12;
  const size_t bytes = bytes_at(buffer + at);
  if (bytes == 0) return 21;
  if (valid - at < bytes) return 12;
  *record = buffer + at;
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
  (void)Enter("cuptiGetTimestamp");
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::lock_guard<std::mutex> lock(fake().mutex);
  *timestamp =
      static_cast<uint64_t>(now.tv_sec * 1'000'000'000 + now.tv_nsec + fake().clock_offset_ns);
  return 0;
}

#ifndef FAKE_CUPTI_BARE  // what an old CUPTI does not have

EXPORT int32_t cuptiGetCallbackName(uint32_t domain, uint32_t cbid, const char** name) {
  (void)Enter("cuptiGetCallbackName");
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

// As CUPTI: a text where it has more to say than the name, and an end of line behind it.
EXPORT int32_t cuptiGetErrorMessage(int32_t result, const char** message) {
  *message = result == 35 || result == 2 ? "the fake says why\n" : "CUPTI_FAKE";
  return 0;
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
    if (f.owned) {
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

EXPORT int32_t cuptiActivityGetAttribute(uint32_t attribute, size_t* size, void* value) {
  if (const int32_t result = Enter("cuptiActivityGetAttribute"); result != 0) return result;
  const std::lock_guard<std::mutex> lock(fake().mutex);
  const auto found = fake().attributes.find(attribute);
  if (found == fake().attributes.end()) return 1;
  const size_t bytes = attribute == kPerThreadBuffer ? 1 : sizeof(size_t);
  if (*size < bytes) return 10;
  std::memcpy(value, &found->second, bytes);
  *size = bytes;
  return 0;
}

EXPORT int32_t cuptiActivitySetAttribute(uint32_t attribute, size_t* size, void* value) {
  if (const int32_t result = Enter("cuptiActivitySetAttribute"); result != 0) return result;
  const std::lock_guard<std::mutex> lock(fake().mutex);
  if (*size != (attribute == kPerThreadBuffer ? 1 : sizeof(size_t))) return 10;
  uint64_t number = 0;
  std::memcpy(&number, value, *size);
  fake().attributes[attribute] = number;
  return 0;
}

#endif  // FAKE_CUPTI_BARE

// The collector calls each of these through its own table, which a test compares with NVIDIA's
// headers: what does not fit that table is a mistake of the fake.
#define PROTOTYPE(name, parameters) \
  static_assert(jobscope::SameAbi<decltype(CuptiApi::name), decltype(&::name)>(), #name);
JOBSCOPE_CUPTI_REQUIRED(PROTOTYPE)
#ifndef FAKE_CUPTI_BARE
JOBSCOPE_CUPTI_OPTIONAL(PROTOTYPE)
#endif
