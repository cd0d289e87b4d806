// SPDX-License-Identifier: Apache-2.0
#include "common/process/headroom.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <fstream>
#include <optional>
#include <string>

namespace jobscope {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
// Larger limits mean none: cgroup v1 writes "unlimited" as a number near 2^63.
constexpr uint64_t kUnlimitedBytes = uint64_t{1} << 60;

// Threads that others may start while ours are counted.
constexpr uint64_t kSpareThreads = 64;

struct LimitFiles {
  const char* folder;  // below the mount; cgroup v1 has one per controller
  const char* limit;
  const char* usage;
  const char* stat_prefix;  // of the keys in memory.stat that include the groups below
};
constexpr LimitFiles kV1 = {"/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                            "total_"};
constexpr LimitFiles kV2 = {"", "/memory.max", "/memory.current", ""};
constexpr LimitFiles kHybrid = {"/unified", "/memory.max", "/memory.current", ""};

// Returns nothing for "max" and if there is no such file.
std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

// Returns the page cache of files. It counts as used, and a job that reads its data fills the group
// with it; the kernel drops it before it refuses memory.
uint64_t PageCache(const std::string& path, const std::string& prefix) {
  std::ifstream file(path);
  const std::string inactive = prefix + "inactive_file";
  const std::string active = prefix + "active_file";
  uint64_t bytes = 0;
  std::string name;
  for (uint64_t number = 0; file >> name >> number;) {
    if (name == inactive || name == active) bytes += number;
  }
  return bytes;
}

// Returns the least memory left in the group of that path and its ancestors. Inside a container, a
// path of the host does not exist; then the nearest existing ancestor is the container's group.
uint64_t LeftInGroups(const LimitFiles& files, const std::string& mount, std::string path) {
  uint64_t left = UINT64_MAX;
  while (true) {
    if (path == "/") path.clear();
    std::string folder = mount;
    folder.append(files.folder).append(path);
    const auto limit = ReadNumber(folder + files.limit);
    const auto usage = ReadNumber(folder + files.usage);
    if (limit.has_value() && usage.has_value() && *limit < kUnlimitedBytes) {
      const uint64_t cache = PageCache(folder + "/memory.stat", files.stat_prefix);
      const uint64_t used = *usage - std::min(*usage, cache);
      left = std::min(left, *limit - std::min(*limit, used));
    }
    if (path.empty()) return left;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

// Returns the threads that the groups still allow. Nothing: unknown.
std::optional<uint64_t> ThreadsLeftInGroups() {
  std::ifstream file("/proc/self/cgroup");
  std::optional<uint64_t> left;
  for (std::string line; std::getline(file, line);) {
    const size_t path_at = line.find('/');
    const bool v1 = line.find(":pids:") != std::string::npos;
    if (path_at == std::string::npos || (!v1 && line.find("::") == std::string::npos)) continue;
    std::string path = line.substr(path_at);
    while (true) {
      if (path == "/") path.clear();
      const std::string folder = std::string(v1 ? "/sys/fs/cgroup/pids" : "/sys/fs/cgroup") + path;
      // The root group has a list of its processes, but no limit.
      if (access((folder + "/cgroup.procs").c_str(), F_OK) == 0) {
        const auto limit = ReadNumber(folder + "/pids.max");
        const auto usage = ReadNumber(folder + "/pids.current");
        uint64_t here = UINT64_MAX;
        if (limit.has_value() && usage.has_value()) here = *limit - std::min(*limit, *usage);
        left = std::min(left.value_or(UINT64_MAX), here);
      }
      if (path.empty()) break;
      path.resize(path.rfind('/'));
    }
  }
  return left;
}

// Counts the threads of the whole machine.
std::optional<uint64_t> CountThreads() {
  std::ifstream file("/proc/loadavg");  // "0.20 0.18 0.12 1/80 11206"
  std::string load;
  uint64_t running = 0;
  uint64_t threads = 0;
  char slash = 0;
  for (int i = 0; i < 3; ++i) file >> load;
  if (!(file >> running >> slash >> threads)) return std::nullopt;
  return threads;
}

// Returns whether anything below the machine's memory limits what this process may map.
bool MappingIsLimited() {
  static const bool strict = ReadNumber("/proc/sys/vm/overcommit_memory") == uint64_t{2};
  rlimit space = {};
  rlimit data = {};
  return strict || (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) ||
         (getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur != RLIM_INFINITY);
}

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

bool CanMap(uint64_t bytes) {
  if (bytes == 0) return true;
  void* const mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return false;
  munmap(mapped, bytes);
  return true;
}

bool HasMemory(uint64_t bytes) { return !MappingIsLimited() || CanMap(bytes); }

bool SurelyHasThreads(uint64_t wanted) {
  if (MappingIsLimited()) return false;
  const auto running = CountThreads();
  const auto most = ReadNumber("/proc/sys/kernel/threads-max");
  const auto in_groups = ThreadsLeftInGroups();
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

uint64_t CgroupMemoryLeft(const std::string& membership, const std::string& mount) {
  // Lines are "4:memory:/path" (v1) and "0::/path" (v2).
  std::ifstream file(membership);
  uint64_t left = UINT64_MAX;
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      left = std::min(left, LeftInGroups(kV2, mount, path));
      left = std::min(left, LeftInGroups(kHybrid, mount, path));
    } else if (controllers.find(",memory,") != std::string::npos) {
      left = std::min(left, LeftInGroups(kV1, mount, path));
    }
  }
  return left;
}

}  // namespace jobscope
