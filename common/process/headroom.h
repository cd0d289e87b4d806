// SPDX-License-Identifier: Apache-2.0
//
// Measures how much of a limited resource this process may still take, without taking it.
#ifndef COMMON_PROCESS_HEADROOM_H_
#define COMMON_PROCESS_HEADROOM_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace jobscope {

// Returns how many descriptors this process can still open, at most `wanted`: free numbers below
// the soft limit (RLIMIT_NOFILE); 0 if the system has no file left. Opens none of them, so the
// application cannot hit its limit because of the call. Usually makes `wanted` system calls.
// Allocates nothing. Thread-safe; another thread may take what was counted.
size_t FreeDescriptors(size_t wanted);

struct MemoryHeadroom {
  uint64_t bytes = 0;
  // The limit that is reached first, for people: "the limit on address space (ulimit -v)". Empty:
  // `bytes` equals what was wanted.
  std::string limit;
};

// Returns how much memory this process can still take: whole MiB, at most `wanted` bytes. Bounded
// by what can be mapped now (RLIMIT_AS, RLIMIT_DATA, strict overcommit) and by the memory limits of
// its cgroups (v1 and v2; their page cache counts as free). Maps and unmaps without touching a
// page. Thread-safe. Takes about 0.1 ms.
MemoryHeadroom FreeMemory(uint64_t wanted);

// Returns whether `bytes` can be mapped now. Allocates nothing: for callers that cannot survive a
// failed allocation.
bool CanMap(uint64_t bytes);

// Maps `bytes` of zeros, which are readable and writable and count against the limits on memory.
// Pages are taken when they are touched, also in a program that has locked its future memory
// (mlockall), where the kernel would otherwise take all of them now. `flags`: of mmap(), in
// addition to MAP_PRIVATE and MAP_ANONYMOUS. Returns null, and sets errno, on failure. Allocates
// nothing else. Thread-safe.
void* MapLazily(size_t bytes, int flags = 0);

// Returns whether a limit below the machine's memory bounds what this process may map. Takes about
// 0.5 us, 5 us on a thread that has just woken up. Allocates nothing.
bool MappingIsLimited();

// Like CanMap, but returns true at once if only the machine's memory bounds the process. For
// frequent calls: takes as long as MappingIsLimited, 3 us more with a limit.
bool HasMemory(uint64_t bytes);

// Returns true if the limits on threads are so far away that no test is needed: the user cannot
// have more threads than the whole machine. False: unknown; only creating a thread shows
// (FreeThreads in worker_thread.h). Takes about 0.2 ms.
bool SurelyHasThreads(uint64_t wanted);

}  // namespace jobscope

#endif  // COMMON_PROCESS_HEADROOM_H_
