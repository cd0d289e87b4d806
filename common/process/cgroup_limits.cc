// SPDX-License-Identifier: Apache-2.0
#include "common/process/cgroup_limits.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/process/proc_files.h"

namespace jobscope {
namespace {

// Larger limits mean none: cgroup v1 writes "unlimited" as a number near 2^63.
constexpr uint64_t kUnlimitedBytes = uint64_t{1} << 60;

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

std::vector<std::string> LinesOf(const std::string& path) {
  return absl::StrSplit(FileText(path), '\n', absl::SkipEmpty());
}

// Returns the page cache of files. It counts as used, and a job that reads its data fills the group
// with it; the kernel drops it before it refuses memory.
uint64_t PageCache(const std::string& path, const std::string& prefix) {
  const std::string text = FileText(path);
  const std::string inactive = prefix + "inactive_file";
  const std::string active = prefix + "active_file";
  uint64_t bytes = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> entry = absl::StrSplit(line, ' ');
    uint64_t number = 0;
    if ((entry.first == inactive || entry.first == active) &&
        absl::SimpleAtoi(entry.second, &number)) {
      bytes += number;
    }
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
    const auto limit = ReadProcNumber(folder + files.limit);
    const bool limited = limit.has_value() && *limit < kUnlimitedBytes;
    const auto usage = limited ? ReadProcNumber(folder + files.usage) : std::nullopt;
    if (usage.has_value()) {
      const uint64_t cache = PageCache(folder + "/memory.stat", files.stat_prefix);
      const uint64_t used = *usage - std::min(*usage, cache);
      left = std::min(left, *limit - std::min(*limit, used));
    }
    if (path.empty()) return left;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

}  // namespace

uint64_t CgroupMemoryLeft(const std::string& membership, const std::string& mount) {
  // Lines are "4:memory:/path" (v1) and "0::/path" (v2).
  uint64_t left = UINT64_MAX;
  for (const std::string& line : LinesOf(membership)) {
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

std::optional<uint64_t> CgroupThreadsLeft(const std::string& membership, const std::string& mount) {
  std::optional<uint64_t> left;
  for (const std::string& line : LinesOf(membership)) {
    const size_t path_at = line.find('/');
    const bool v1 = line.find(":pids:") != std::string::npos;
    if (path_at == std::string::npos || (!v1 && line.find("::") == std::string::npos)) continue;
    std::string path = line.substr(path_at);
    const std::string root = v1 ? mount + "/pids" : mount;
    while (true) {
      if (path == "/") path.clear();
      const std::string folder = root + path;
      // The root group has a list of its processes, but no limit.
      if (access((folder + "/cgroup.procs").c_str(), F_OK) == 0) {
        const auto limit = ReadProcNumber(folder + "/pids.max");
        const auto usage =
            limit.has_value() ? ReadProcNumber(folder + "/pids.current") : std::nullopt;
        uint64_t here = UINT64_MAX;
        if (usage.has_value()) here = *limit - std::min(*limit, *usage);
        left = std::min(left.value_or(UINT64_MAX), here);
      }
      if (path.empty()) break;
      path.resize(path.rfind('/'));
    }
  }
  return left;
}

}  // namespace jobscope
