// SPDX-License-Identifier: Apache-2.0
#include "collectors/system/cgroup_throttling.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/process/proc_files.h"

namespace jobscope {
namespace {

constexpr char kFile[] = "/cpu.stat";

std::vector<std::string> LinesOf(const std::string& file) {
  return absl::StrSplit(FileText(file), '\n', absl::SkipEmpty());
}

bool HasWord(const std::string& list, const char* word) {
  const std::vector<std::string> words = absl::StrSplit(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// A mounted cgroup hierarchy with the CPU controller.
struct Hierarchy {
  std::string mount;
  std::string root;  // the cgroup that is mounted there
  bool is_v2 = false;
};

// Parses lines like "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup cgroup
// rw,cpu,cpuacct".
std::vector<Hierarchy> Hierarchies(const std::string& proc) {
  std::vector<Hierarchy> found;
  for (const std::string& line : LinesOf(proc + "/mountinfo")) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4) continue;
    const std::string& type = dash[1];
    if (type != "cgroup2" && (type != "cgroup" || !HasWord(dash[3], "cpu"))) continue;
    found.push_back({words[4], words[3], type == "cgroup2"});
  }
  return found;
}

// Parses "4:cpu,cpuacct:/job/worker" (v1) or "0::/job/worker" (v2). Empty: the process is in none.
std::string CgroupOf(const std::string& proc, bool is_v2) {
  for (const std::string& line : LinesOf(proc + "/cgroup")) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (is_v2 ? parts[0] == "0" && parts[1].empty() : HasWord(parts[1], "cpu")) return parts[2];
  }
  return {};
}

// Returns the cgroup's path below the mount. If the cgroup lies outside of what is mounted, returns
// the mount itself: a container sees its own cgroup there, while its name is the host's.
std::string Below(const Hierarchy& hierarchy, const std::string& cgroup) {
  const std::string root = hierarchy.root == "/" ? "" : hierarchy.root;
  if (cgroup.compare(0, root.size(), root) != 0) return {};
  std::string path = cgroup.substr(root.size());
  // "/jobs/1" does not lie below "/job".
  if (!path.empty() && path[0] != '/') return {};
  while (!path.empty() && path.back() == '/') path.pop_back();
  return path;
}

// Adds the numbers of one file. False: it has no quota, or had none while threads ran.
bool AddFile(const std::string& file, Throttling* throttling) {
  bool has_quota = false;
  for (const std::string& line : LinesOf(file)) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    uint64_t value = 0;
    if (words.size() != 2 || !absl::SimpleAtoi(words[1], &value)) continue;
    if (words[0] == "nr_periods") {
      has_quota = value > 0;
      throttling->periods += value;
    } else if (words[0] == "nr_throttled") {
      throttling->throttled_periods += value;
    } else if (words[0] == "throttled_usec") {
      throttling->throttled_ns += value * 1000;
    } else if (words[0] == "throttled_time") {  // v1
      throttling->throttled_ns += value;
    }
  }
  return has_quota;
}

}  // namespace

CgroupThrottling::CgroupThrottling(const std::string& proc) {
  for (const Hierarchy& hierarchy : Hierarchies(proc)) {
    const std::string cgroup = CgroupOf(proc, hierarchy.is_v2);
    if (cgroup.empty()) continue;
    // The quotas of all ancestors bound the process.
    for (std::string path = Below(hierarchy, cgroup); files_.size() < kMaxCgroups;
         path.resize(path.rfind('/'))) {
      const std::string file = absl::StrCat(hierarchy.mount, path, kFile);
      Throttling unused;
      if (AddFile(file, &unused)) files_.push_back(file);
      if (path.empty()) break;
    }
    // If a version 1 hierarchy has the controller, the version 2 hierarchy does not.
    if (!files_.empty()) return;
  }
}

std::optional<Throttling> CgroupThrottling::Read() const {
  Throttling throttling;
  bool found = false;
  for (const std::string& file : files_) found = AddFile(file, &throttling) || found;
  if (!found) return std::nullopt;
  return throttling;
}

}  // namespace jobscope
