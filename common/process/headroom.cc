// SPDX-License-Identifier: Apache-2.0
#include "common/process/headroom.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <optional>
#include <string>

#include "common/process/cgroup_limits.h"
#include "common/process/proc_files.h"

namespace jobscope {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
// Threads that others may start while ours are counted.
constexpr uint64_t kSpareThreads = 64;

uint64_t Mappable(uint64_t wanted) {
  if (CanMap(wanted)) return wanted;
  uint64_t can = 0;
  uint64_t cannot = wanted;
  while (cannot - can > kMiB) {
    const uint64_t middle = can + (cannot - can) / 2;
    (CanMap(middle) ? can : cannot) = middle;
  }
  return can;
}

const char* MappingLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    return "the limit on address space (ulimit -v)";
  }
  if (getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    return "the limit on data (ulimit -d)";
  }
  return "the memory that the system commits to processes (vm.overcommit_memory)";
}

}  // namespace

size_t FreeDescriptors(size_t wanted) {
  // The whole system may have run out, whatever limit the process has.
  const int one = eventfd(0, EFD_CLOEXEC);
  if (one < 0) return 0;
  close(one);
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  size_t free = 0;
  // Searches from the highest number down: few of those are taken.
  for (auto fd = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, INT_MAX)) - 1;
       fd >= 0 && free < wanted; --fd) {
    if (fcntl(fd, F_GETFD) < 0) ++free;
  }
  return free;
}

void* MapLazily(size_t bytes, int flags) {
  // The kernel fills no pages that nobody may access, and none that are not locked.
  void* const mapped = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  (void)munlock(mapped, bytes);
  if (mprotect(mapped, bytes, PROT_READ | PROT_WRITE) == 0) return mapped;
  const int error = errno;
  munmap(mapped, bytes);
  errno = error;
  return nullptr;
}

bool CanMap(uint64_t bytes) {
  if (bytes == 0) return true;
  void* const mapped = MapLazily(bytes);
  if (mapped == nullptr) return false;
  munmap(mapped, bytes);
  return true;
}

bool MappingIsLimited() {
  static const bool strict = ReadProcNumber("/proc/sys/vm/overcommit_memory") == uint64_t{2};
  rlimit space = {};
  rlimit data = {};
  return strict || (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) ||
         (getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur != RLIM_INFINITY);
}

bool HasMemory(uint64_t bytes) { return !MappingIsLimited() || CanMap(bytes); }

bool SurelyHasThreads(uint64_t wanted) {
  if (MappingIsLimited()) return false;
  const auto running = ReadThreadCount("/proc/loadavg");
  const auto most = ReadProcNumber("/proc/sys/kernel/threads-max");
  const auto in_groups = CgroupThreadsLeft("/proc/self/cgroup", "/sys/fs/cgroup");
  rlimit user = {};
  if (!running.has_value() || !most.has_value() || !in_groups.has_value() ||
      getrlimit(RLIMIT_NPROC, &user) != 0) {
    return false;
  }
  const uint64_t needed = *running + wanted + kSpareThreads;
  return *most >= needed && *in_groups >= wanted + kSpareThreads &&
         (user.rlim_cur == RLIM_INFINITY || user.rlim_cur >= needed);
}

MemoryHeadroom FreeMemory(uint64_t wanted) {
  MemoryHeadroom headroom;
  headroom.bytes = Mappable(wanted);
  if (headroom.bytes < wanted) headroom.limit = MappingLimit();
  const uint64_t in_group = CgroupMemoryLeft("/proc/self/cgroup", "/sys/fs/cgroup");
  if (in_group < headroom.bytes) {
    headroom.bytes = in_group;
    headroom.limit = "the memory limit of the cgroup";
  }
  headroom.bytes = headroom.bytes / kMiB * kMiB;
  return headroom;
}

}  // namespace jobscope
