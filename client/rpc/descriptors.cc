// SPDX-License-Identifier: Apache-2.0
#include "client/rpc/descriptors.h"

#include <sys/resource.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/process/headroom.h"
#include "common/threads/worker_thread.h"

namespace jobscope {
namespace {

// For gRPC itself, name lookups, traces being written, and the caller's open files.
constexpr uint64_t kOthers = 64;

// A capture of one worker has 15 at a time on two processors.
constexpr size_t kThreads = 20;

// glibc reserves 64 MiB for the heap of each thread. With up to 500 MiB a capture was sometimes
// aborted, with 600 never.
constexpr uint64_t kHeapsBytes = uint64_t{640} << 20;

}  // namespace

absl::Status EnsureDescriptors(size_t workers, size_t per_worker) {
  const uint64_t needed = uint64_t{workers} * per_worker + kOthers;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::OkStatus();
  if (limit.rlim_cur < limit.rlim_max) {
    rlimit raised = limit;
    raised.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  if (limit.rlim_cur >= needed) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      workers, workers == 1 ? " worker takes" : " workers take", " up to ", needed,
      " open files, and this process is allowed ", limit.rlim_cur, "; raise the limit (ulimit -Hn ",
      needed, ", as root or in limits.conf), or give fewer workers at a time"));
}

absl::Status EnsureThreads() {
  if (!HasMemory(kHeapsBytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "its threads reserve up to ", kHeapsBytes >> 20,
        " MiB of address space for their heaps, and those cannot be mapped; raise the limit on "
        "address space (ulimit -v)"));
  }
  const size_t free = FreeThreads(kThreads);
  if (free == kThreads) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("it needs ", kThreads, " threads, and ", free,
                   " can be created; raise the limit on threads (ulimit -u, pids.max of the "
                   "cgroup) or on address space (ulimit -v)"));
}

}  // namespace jobscope
