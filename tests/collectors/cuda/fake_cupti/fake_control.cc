// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/collectors/cuda/fake_cupti/fake_cupti.h"
#include "tests/collectors/cuda/fake_cupti/fake_state.h"

using namespace fake_cupti;  // NOLINT: the fake is nothing but this

namespace {

constexpr uint32_t kStateFatalError = 1;

}  // namespace

EXPORT void FakeCuptiReset(uint32_t version) {
  Fake& f = fake();
  // What it holds goes back empty: the client's memory is not as new.
  std::vector<Buffer> held;
  {
    const std::lock_guard<std::mutex> lock(f.mutex);
    held = std::exchange(f.full, {});
    f.held_back.clear();
    for (const auto& [thread, buffer] : f.buffers) held.push_back(buffer);
    f.buffers.clear();
  }
  for (const Buffer& buffer : held) Complete(buffer, 0);
  const std::lock_guard<std::mutex> lock(f.mutex);
  f.version = version;
  f.record_bytes.clear();
  f.failures.clear();
  f.hangs.clear();
  f.calls.clear();
  f.enabled.clear();
  f.domains.clear();
  f.unified_memory.clear();
  f.subscribed = false;
  f.owned = false;
  f.owner.clear();
  f.attributes = DefaultAttributes(version);
  f.clock_offset_ns = 0;
  f.dropped = 0;
  f.pending.clear();
  f.changed.notify_all();
}

EXPORT void FakeCuptiSetRecordBytes(uint32_t kind, size_t bytes) {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().record_bytes[kind] = bytes;
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
  fake().owned = name != nullptr;
  fake().owner = name == nullptr ? "" : name;
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

EXPORT int FakeCuptiApiSite(uint32_t domain, uint32_t site, const char* function) {
  Callback callback = nullptr;
  void* userdata = nullptr;
  {
    const std::lock_guard<std::mutex> lock(fake().mutex);
    if (fake().domains.count(domain) != 0) callback = fake().callback;
    userdata = fake().userdata;
  }
  if (callback == nullptr) return 0;
  const struct {
    uint32_t site;
    const char* name;
  } data{site, function};
  callback(userdata, domain, 1, &data);
  return 1;
}

EXPORT int FakeCuptiApiCall(uint32_t domain) {
  const char* const function = domain == 1 ? "cuLaunchKernel" : "cudaLaunchKernel";
  int reported = 0;
  for (const uint32_t site : {0u, 1u}) reported += FakeCuptiApiSite(domain, site, function);
  return reported;
}

EXPORT uint64_t FakeCuptiAttribute(uint32_t attribute) {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  return fake().attributes[attribute];
}

EXPORT void FakeCuptiSetAttribute(uint32_t attribute, uint64_t value) {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().attributes[attribute] = value;
}

EXPORT int FakeCuptiUnifiedMemoryCounters() {
  const std::lock_guard<std::mutex> lock(fake().mutex);
  return static_cast<int>(fake().unified_memory.size());
}

EXPORT uint64_t FakeCuptiEmit(const void* record, size_t bytes) {
  uint32_t kind = 0;
  std::memcpy(&kind, record, sizeof(kind));
  Fake& f = fake();
  const auto thread = std::this_thread::get_id();
  // A flush may take the buffer at any time but while it is written to.
  const auto write = [&] {
    Buffer& own = f.buffers[thread];
    uint8_t* const at = own.data + own.used;
    std::memcpy(at, record, bytes);
    own.used += bytes;
    const uint64_t work = f.next_pending++;
    if (IsWork(kind)) f.pending[work] = {at, kind};
    return work;
  };
  Buffer full;
  {
    const std::lock_guard<std::mutex> lock(f.mutex);
    if (f.enabled.count(kind) == 0) return 0;
    Buffer& own = f.buffers[thread];
    if (own.data != nullptr && own.used + bytes <= own.size) return write();
    if (own.data != nullptr) std::swap(full, own);
    if (full.data != nullptr && !IsComplete(full, f.version))
      f.full.push_back(std::exchange(full, {}));
  }
  if (full.data != nullptr) Complete(full, full.used);
  const Buffer current = Request();
  if (current.data == nullptr) {
    FakeCuptiAddDropped(1);
    return 0;
  }
  const std::lock_guard<std::mutex> lock(f.mutex);
  f.buffers[thread] = current;
  return write();
}

EXPORT int FakeCuptiSetTimes(uint64_t work, uint64_t start_ns, uint64_t end_ns) {
  Fake& f = fake();
  const std::lock_guard<std::mutex> lock(f.mutex);
  const auto found = f.pending.find(work);
  if (found == f.pending.end()) return 0;
  std::memcpy(found->second.record + kStartOfWork, &start_ns, sizeof(start_ns));
  std::memcpy(found->second.record + kEndOfWork, &end_ns, sizeof(end_ns));
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

EXPORT void FakeCuptiHoldBack(const void* bytes, size_t size) {
  const auto* const begin = static_cast<const uint8_t*>(bytes);
  const std::lock_guard<std::mutex> lock(fake().mutex);
  fake().held_back.emplace_back(begin, begin + size);
}

EXPORT void* FakeCuptiTake() { return Request().data; }

EXPORT void FakeCuptiReturn(void* buffer, const void* bytes, size_t size) {
  Buffer back;
  back.data = static_cast<uint8_t*>(buffer);
  back.size = size;
  if (size > 0) std::memcpy(buffer, bytes, size);
  Complete(back, size);
}
