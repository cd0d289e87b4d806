// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/stacks/thread_ids.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace jobscope::python {
namespace {

// The id is in this first part of a thread's descriptor.
constexpr size_t kDescriptorBytes = 1024;

}  // namespace

// The kernel's id of a thread's CPU clock encodes the thread's id (its complement, above three flag
// bits). The C library reads it from the thread's descriptor, whose page is checked first: a thread
// may have ended without Python's knowledge.
int64_t TidOfPthread(uint64_t pthread) {
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (const uint64_t address : {pthread, pthread + kDescriptorBytes}) {
    unsigned char resident = 0;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it is an address, from Python.
    if (mincore(reinterpret_cast<void*>(address & ~(page_bytes - 1)), 1, &resident) != 0) return 0;
  }
  clockid_t clock = 0;
  if (pthread_getcpuclockid(static_cast<pthread_t>(pthread), &clock) != 0) return 0;
  return ~(static_cast<int64_t>(clock) >> 3);
}

std::optional<size_t> OffsetOfTid(const std::vector<uint64_t>& pthreads) {
  const auto id_at = [](uint64_t pthread, size_t offset) {
    int32_t id = 0;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it is an address, from Python.
    std::memcpy(&id, reinterpret_cast<const char*>(pthread) + offset, sizeof(id));
    return int64_t{id};
  };
  const auto self = static_cast<uint64_t>(pthread_self());
  const auto own_tid = static_cast<int64_t>(syscall(SYS_gettid));
  for (size_t offset = 0; offset < kDescriptorBytes; offset += sizeof(int32_t)) {
    if (id_at(self, offset) != own_tid) continue;
    const bool of_all = std::all_of(pthreads.begin(), pthreads.end(), [&](uint64_t pthread) {
      const int64_t tid = TidOfPthread(pthread);
      return tid != 0 && id_at(pthread, offset) == tid;
    });
    if (of_all) return offset;
  }
  return std::nullopt;
}

}  // namespace jobscope::python
