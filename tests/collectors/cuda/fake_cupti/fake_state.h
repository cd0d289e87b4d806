// SPDX-License-Identifier: Apache-2.0
//
// Holds the state of the fake, which CUPTI's functions (fake_cupti.cc) share with those by which a
// test controls the fake (fake_control.cc).
#ifndef TESTS_COLLECTORS_CUDA_FAKE_CUPTI_FAKE_STATE_H_
#define TESTS_COLLECTORS_CUDA_FAKE_CUPTI_FAKE_STATE_H_

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/collectors/cuda/fake_cupti/export.h"

// Hidden: a process may hold several copies of the library, and each is a CUPTI of its own.
#pragma GCC visibility push(hidden)
namespace fake_cupti {

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

// A record of work that has not ended: it lies in a buffer that the fake still holds.
struct Pending {
  uint8_t* record = nullptr;
  uint32_t kind = 0;
};

// Attributes of the activity API: those that the collector reads or sets.
constexpr uint32_t kDeviceBufferSize = 0;
constexpr uint32_t kDeviceBufferPoolLimit = 2;
constexpr uint32_t kPerThreadBuffer = 9;
inline std::map<uint32_t, uint64_t> DefaultAttributes(uint32_t version) {
  return {{kDeviceBufferSize, 3'355'443},
          {kDeviceBufferPoolLimit, 250},
          {kPerThreadBuffer, version >= 130000 ? 1 : 0}};
}

// FAKE_CUPTI_VERSION, for processes that do not know that this is a fake.
inline uint32_t FirstVersion() {
  const char* const text = std::getenv("FAKE_CUPTI_VERSION");
  return text == nullptr ? 130001 : static_cast<uint32_t>(std::atoi(text));
}

struct Fake {
  std::mutex mutex;
  std::condition_variable changed;
  uint32_t version = FirstVersion();
  std::map<uint32_t, size_t> record_bytes;  // instead of StrideOf
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
  bool owned = false;  // somebody else is subscribed
  std::string owner;   // that one's name; empty: it gave none
  std::map<uint32_t, uint64_t> attributes = DefaultAttributes(version);
  int64_t clock_offset_ns = 0;
  size_t dropped = 0;
  Requested requested = nullptr;
  Completed completed = nullptr;
  std::map<std::thread::id, Buffer> buffers;  // that threads write to
  std::vector<Buffer> full;  // withheld: full, with work in them that has not ended
  std::deque<std::vector<uint8_t>>
      held_back;  // each flush returns the next one, in a buffer of its own
  std::map<uint64_t, Pending> pending;
  uint64_t next_pending = 1;
};

inline Fake& fake() {
  static auto* const fake = new Fake;
  return *fake;
}

// As CUPTI: what it works with is destroyed at exit. A later call ends the process.
constexpr int kCalledAfterItsEnd = 86;
inline std::atomic<bool> ended{false};
struct Lifetime {
  ~Lifetime() { ended = true; }
};
inline const Lifetime lifetime;

// What each function does first: counts, hangs, fails.
inline int32_t Enter(const std::string& function, const std::string& detail = "") {
  if (ended) _exit(kCalledAfterItsEnd);
  Fake& f = fake();
  std::unique_lock<std::mutex> lock(f.mutex);
  const uint64_t before = f.calls[function]++;
  ++f.calls[""];
  std::string with_detail = function;
  with_detail.append(":").append(detail);
  if (!detail.empty()) ++f.calls[with_detail];
  const auto hangs = [&] { return f.hangs.count(function) + f.hangs.count(with_detail) != 0; };
  if (hangs()) {
    ++f.hanging;
    f.changed.notify_all();
    f.changed.wait(lock, [&] { return !hangs(); });
    --f.hanging;
  }
  for (const std::string& name : {function, with_detail}) {
    const auto failure = f.failures.find(name);
    if (failure != f.failures.end() && before >= failure->second.after) {
      return failure->second.result;
    }
  }
  return 0;
}

// The newest layout that this version has.
inline size_t StrideOf(uint32_t kind, uint32_t version) {
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
    case 36:  // comes unasked with synchronisation before 12.9
      return version >= 26 ? 56 : 24;
    case 51:
      return version >= 21 ? 56 : 48;
    case 25:
      return version >= 26 ? 104 : 64;
    default:
      return 0;
  }
}

inline Buffer Request() {
  Requested requested;
  {
    const std::lock_guard<std::mutex> lock(fake().mutex);
    requested = fake().requested;
  }
  Buffer buffer;
  if (requested == nullptr) return buffer;
  size_t max_records = 0;
  requested(&buffer.data, &buffer.size, &max_records);
  // As CUPTI does, unless a setting says that the client has.
  if (buffer.data != nullptr) std::memset(buffer.data, 0, buffer.size);
  return buffer;
}

// Gives a buffer back to the client. What has not ended in it never will, for the client.
inline void Complete(const Buffer& buffer, size_t valid) {
  Completed completed;
  {
    const std::lock_guard<std::mutex> lock(fake().mutex);
    completed = fake().completed;
    std::map<uint64_t, Pending>& pending = fake().pending;
    for (auto at = pending.begin(); at != pending.end();) {
      const bool inside =
          at->second.record >= buffer.data && at->second.record < buffer.data + buffer.size;
      at = inside ? pending.erase(at) : std::next(at);
    }
  }
  if (completed != nullptr && buffer.data != nullptr) {
    completed(nullptr, 0, buffer.data, buffer.size, valid);
  }
}

// No work in it that has not ended. The end of each kind of work lies at the same place.
constexpr size_t kStartOfWork = 16;
constexpr size_t kEndOfWork = 24;
inline bool IsWork(uint32_t kind) {
  return kind == 1 || kind == 2 || kind == 3 || kind == 10 || kind == 22;
}
inline bool IsComplete(const Buffer& buffer, uint32_t version) {
  for (size_t at = 0; at + kEndOfWork + sizeof(uint64_t) <= buffer.used;) {
    uint32_t kind = 0;
    std::memcpy(&kind, buffer.data + at, sizeof(kind));
    uint64_t end_ns = 0;
    std::memcpy(&end_ns, buffer.data + at + kEndOfWork, sizeof(end_ns));
    if (IsWork(kind) && end_ns == 0) return false;
    const size_t stride = StrideOf(kind, version);
    if (stride == 0) return true;
    at += stride;
  }
  return true;
}

}  // namespace fake_cupti
#pragma GCC visibility pop

#endif  // TESTS_COLLECTORS_CUDA_FAKE_CUPTI_FAKE_STATE_H_
