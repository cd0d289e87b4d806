// SPDX-License-Identifier: Apache-2.0
#include "server/guard/resource_guard.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <new>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/process/headroom.h"
#include "common/status/error_reason.h"
#include "common/threads/worker_thread.h"
#include "server/limits.h"

namespace jobscope {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A server takes 8 descriptors (four eventfds, two epolls, a listener, one to bind with) and a
// connection two, in addition to those left to the application (kFreeDescriptors).
constexpr size_t kServerDescriptors = limits::kFreeDescriptors + 16;

// gRPC's executors, timers and engine, the acceptor, and the thread that starts and stops it. Added
// to these are the polling threads, one per two processors.
constexpr size_t kServerThreads = 8;
constexpr long kMinPollers = 2;
constexpr long kMaxPollers = 16;
// A session and one collector.
constexpr size_t kMinCaptureThreads = 2;
// gRPC adds a thread when one is busy, and collectors have helpers of their own.
constexpr size_t kSpareThreads = 4;

constexpr uint64_t kEntryBytes = 16 * kMiB;
// gRPC's buffers and what the first calls allocate.
constexpr uint64_t kServerBytes = 64 * kMiB;
// Address space, if limited: glibc reserves so much for the heap of each thread.
constexpr uint64_t kHeapBytes = 64 * kMiB;
// What a capture takes in addition to its store: rings, names, buffers.
constexpr uint64_t kCaptureBytes = 64 * kMiB;

size_t ServerThreads() {
  const long pollers = std::clamp(sysconf(_SC_NPROCESSORS_CONF) / 2, kMinPollers, kMaxPollers);
  return kServerThreads + static_cast<size_t>(pollers);
}

absl::Status LimitReached(absl::string_view text) {
  return WithReason(absl::ResourceExhaustedError(text), ErrorReason::kProcessLimit);
}

absl::Status NoMemory(const char* what, const MemoryHeadroom& left, uint64_t needed) {
  return LimitReached(absl::StrCat("cannot start the ", what, ": it needs ", needed / kMiB,
                                   " MiB, and ", left.limit, " leaves ", left.bytes / kMiB,
                                   " MiB; raise that limit"));
}

__attribute__((constructor)) void MakeErrors() { (void)OutOfMemoryError(); }

}  // namespace

const absl::Status& OutOfMemoryError() {
  static const auto* const error = new absl::Status(LimitReached(
      "the process has no memory left; raise its limit (ulimit -v, memory.max of the cgroup)"));
  return *error;
}

absl::Status StatusOrCode(absl::StatusCode code, absl::FunctionRef<absl::Status()> make) {
  try {
    return make();
  } catch (const std::exception&) {
    return absl::Status(code, "");
  }
}

bool HeapHas(size_t bytes) {
  // Not by a new expression, which compilers remove.
  void* const volatile memory = ::operator new(bytes, std::nothrow);
  ::operator delete(memory);
  return memory != nullptr;
}

absl::Status CheckRoomToEnter() {
  if (CanMap(kEntryBytes)) return absl::OkStatus();
  return LimitReached(
      absl::StrCat("cannot start the profiler: no ", kEntryBytes / kMiB,
                   " MiB of memory can be mapped; raise the limit on address space (ulimit -v)"));
}

absl::Status CheckRoomForServer() {
  if (const size_t free = FreeDescriptors(kServerDescriptors); free < kServerDescriptors) {
    return LimitReached(absl::StrCat("cannot start the profiler server: it needs ",
                                     kServerDescriptors, " free file descriptors, and ", free,
                                     " are left; raise the limit (ulimit -n)"));
  }
  const size_t threads = ServerThreads() + kMinCaptureThreads + kSpareThreads;
  const uint64_t space =
      threads * (kHeapBytes + ThreadStackBytes()) + kServerBytes + limits::kConnectionBytes;
  if (!HasMemory(space)) {
    return LimitReached(absl::StrCat(
        "cannot start the profiler server: its threads reserve up to ", space / kMiB,
        " MiB of address space, most of it for their heaps, and that cannot be mapped; raise the "
        "limit on address space (ulimit -v)"));
  }
  MemoryHeadroom memory = FreeMemory(kServerBytes);
  if (memory.bytes < kServerBytes) return NoMemory("profiler server", memory, kServerBytes);
  if (const size_t free = FreeThreads(threads, /*reserve_heaps=*/true); free < threads) {
    return LimitReached(absl::StrCat(
        "cannot start the profiler server: it needs ", threads, " threads, and ", free,
        " can be created; raise the limit on threads (ulimit -u, pids.max of the cgroup) or on "
        "address space (ulimit -v)"));
  }
  // Those threads have reserved their heaps, which gRPC will use; their stacks were freed with
  // them.
  const uint64_t bytes = kServerBytes + ServerThreads() * ThreadStackBytes();
  memory = FreeMemory(bytes);
  return memory.bytes < bytes ? NoMemory("profiler server", memory, bytes) : absl::OkStatus();
}

CaptureRoom FindRoomForCapture(size_t collectors, uint64_t store_bytes) {
  CaptureRoom room;
  const size_t threads = FreeThreads(collectors + kSpareThreads);
  if (threads <= kSpareThreads) {
    room.status = LimitReached(absl::StrCat(
        "cannot capture: ", threads, " threads can be created in this process, and ", kSpareThreads,
        " are left to its server; raise the limit on threads (ulimit -u, pids.max "
        "of the cgroup) or on address space (ulimit -v)"));
    return room;
  }
  room.collectors = std::min(collectors, threads - kSpareThreads);

  // Twice the store: an answer is assembled in addition to it, and the rest is the application's.
  constexpr uint64_t kMostBytes = std::numeric_limits<uint64_t>::max() / 4;
  const uint64_t wanted = 2 * std::min(store_bytes, kMostBytes) + kCaptureBytes;
  const MemoryHeadroom memory = FreeMemory(wanted);
  room.store_bytes = store_bytes;
  if (memory.limit.empty()) return room;
  const uint64_t left = memory.bytes - std::min(memory.bytes, kCaptureBytes);
  room.store_bytes = std::min(store_bytes, left / 2);
  if (room.store_bytes < limits::kMinStoreBytes) {
    room.status = LimitReached(
        absl::StrCat("cannot capture: ", memory.limit, " leaves ", memory.bytes / kMiB,
                     " MiB to this process, and a capture takes ", kCaptureBytes / kMiB,
                     " MiB and its store twice; raise that limit"));
  } else if (room.store_bytes < store_bytes) {
    room.warning = absl::StrCat(
        "the capture's store had ", room.store_bytes / kMiB, " MiB instead of ", store_bytes / kMiB,
        ", because ", memory.limit, " left ", memory.bytes / kMiB,
        " MiB to the process; raise that limit, or ask for a smaller store (JOBSCOPE_STORE_MB)");
  }
  return room;
}

}  // namespace jobscope
