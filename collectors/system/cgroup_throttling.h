// SPDX-License-Identifier: Apache-2.0
//
// How often the process's cgroups had used up their CPU quota.
#ifndef COLLECTORS_SYSTEM_CGROUP_THROTTLING_H_
#define COLLECTORS_SYSTEM_CGROUP_THROTTLING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace jobscope {

// Since the cgroups were made, summed over the process's own and those around it.
struct Throttling {
  uint64_t periods = 0;            // in which a cgroup with a quota had something to run
  uint64_t throttled_periods = 0;  // of these: it ran out of its quota
  uint64_t throttled_ns = 0;       // for so long, summed over processors
};

// Reads cpu.stat of the cgroups that bound the process's CPU time, of cgroup v1 or v2. Not
// thread-safe. Reading takes about 10 us per cgroup.
class CgroupThrottling {
 public:
  // Finds the cgroups by `proc`/cgroup and `proc`/mountinfo. Without a readable one Read is absent.
  explicit CgroupThrottling(const std::string& proc = "/proc/self");

  std::optional<Throttling> Read() const;

  // Exposed for tests: the files, the process's own cgroup first; at most kMaxCgroups.
  static constexpr int kMaxCgroups = 16;
  const std::vector<std::string>& files() const { return files_; }

 private:
  std::vector<std::string> files_;
};

}  // namespace jobscope

#endif  // COLLECTORS_SYSTEM_CGROUP_THROTTLING_H_
