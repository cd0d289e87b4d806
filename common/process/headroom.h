// SPDX-License-Identifier: Apache-2.0
//
// Measures how much of a limited resource this process may still take.
#ifndef COMMON_PROCESS_HEADROOM_H_
#define COMMON_PROCESS_HEADROOM_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace jobscope {

// Descriptors that this process can still open: numbers below the soft limit (RLIMIT_NOFILE) that
// are free, at most `wanted`; 0 where the system has no file left at all. Opens none of them, so
// the application never meets its limit because of the question. Usually makes `wanted` system
// calls. Allocates nothing. Thread-safe; another thread may take what was counted.
size_t FreeDescriptors(size_t wanted);

struct MemoryHeadroom {
  uint64_t bytes = 0;
  // What ends it first, for people: "the limit on address space (ulimit -v)". Empty: `bytes` is all
  // that was wanted.
  std::string limit;
};

// Memory that this process can still take, at most `wanted` bytes, whole MiB. Bounded by what can
// be mapped now (RLIMIT_AS, RLIMIT_DATA, strict overcommit) and by the memory limits of its cgroups
// (v1 and v2; their page cache counts as free). Maps and unmaps without touching a page.
// Thread-safe. Takes about 0.1 ms.
MemoryHeadroom FreeMemory(uint64_t wanted);

// Whether `bytes` can be mapped now. Allocates nothing: for callers to whom an allocation that
// fails would be fatal.
bool CanMap(uint64_t bytes);

// As CanMap, but true at once where nothing but the machine's memory bounds the process: for those
// who ask often. Takes about 0.5 us, 3 us where there is a limit.
bool HasMemory(uint64_t bytes);

// Whether the limits on threads are so far away that nobody needs to try: the user cannot have more
// threads than the whole machine. False: not known; a thread has to be created to find out
// (FreeThreads in worker_thread.h). Takes about 0.2 ms.
bool SurelyHasThreads(uint64_t wanted);

// Memory that the cgroups of a process leave to it: `membership` is its /proc/PID/cgroup, `mount`
// where cgroup file systems are mounted (/sys/fs/cgroup). UINT64_MAX: not limited, or not known.
uint64_t CgroupMemoryLeft(const std::string& membership, const std::string& mount);

}  // namespace jobscope

#endif  // COMMON_PROCESS_HEADROOM_H_
