// SPDX-License-Identifier: Apache-2.0
//
// Reads what the cgroups of a process, v1 and v2, still allow it.
#ifndef COMMON_PROCESS_CGROUP_LIMITS_H_
#define COMMON_PROCESS_CGROUP_LIMITS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace jobscope {

// Returns the memory left in the cgroups of a process. `membership` is its /proc/PID/cgroup,
// `mount` the mount point of the cgroup file systems (/sys/fs/cgroup). UINT64_MAX: unlimited or
// unknown.
uint64_t CgroupMemoryLeft(const std::string& membership, const std::string& mount);

// Returns the threads that the cgroups of a process still allow; UINT64_MAX: any number. Nothing:
// unknown.
std::optional<uint64_t> CgroupThreadsLeft(const std::string& membership, const std::string& mount);

}  // namespace jobscope

#endif  // COMMON_PROCESS_CGROUP_LIMITS_H_
