// SPDX-License-Identifier: Apache-2.0
//
// Reads how often the process's cgroups exhausted their CPU quota.
#ifndef COLLECTORS_SYSTEM_CGROUP_THROTTLING_H_
#define COLLECTORS_SYSTEM_CGROUP_THROTTLING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace jobscope {

// Counts since the cgroups were created, summed over the process's own cgroup and its ancestors.
struct Throttling {
  uint64_t periods = 0;            // with runnable threads in a cgroup with a quota
  uint64_t throttled_periods = 0;  // of these: the quota was exhausted
  uint64_t throttled_ns = 0;       // duration, summed over processors
};

// Reads cpu.stat of the cgroups that bound the process's CPU time, of cgroup v1 or v2. Not
// thread-safe. A read takes about 10 us per cgroup.
class CgroupThrottling {
 public:
  // Finds the cgroups by `proc`/cgroup and `proc`/mountinfo. If none is readable or has had a quota
  // so far, Read returns nothing, and costs nothing.
  explicit CgroupThrottling(const std::string& proc = "/proc/self");

  std::optional<Throttling> Read() const;

  // For tests: the files, the process's own cgroup first; at most kMaxCgroups.
  static constexpr int kMaxCgroups = 16;
  const std::vector<std::string>& files() const { return files_; }

 private:
  std::vector<std::string> files_;
};

}  // namespace jobscope

#endif  // COLLECTORS_SYSTEM_CGROUP_THROTTLING_H_
