// SPDX-License-Identifier: Apache-2.0
//
// The processors that a process may run on, as opposed to one of its threads.
#ifndef COMMON_PROCESS_PROCESS_CPUS_H_
#define COMMON_PROCESS_PROCESS_CPUS_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace jobscope {

// A set of processors, as the scheduler has it.
class CpuSet {
 public:
  // Of a thread; 0: of the calling one. Empty where it cannot be read.
  static CpuSet OfThread(pid_t tid);

  void Add(const CpuSet& others);
  size_t count() const;
  friend bool operator==(const CpuSet& a, const CpuSet& b) { return a.words_ == b.words_; }

  // Does nothing for an empty set, or one that the system refuses.
  void ApplyToThisThread() const;

 private:
  std::array<uint64_t, 128> words_{};  // the kernel's limit: 8,192 processors
};

// The processors of this process: those that any of its threads may run on, now or, at the first
// call, when this library was loaded. A thread that binds itself to a core, as those of OpenMP do
// (OMP_PROC_BIND), does not narrow them, and taskset on the whole process does. Where OpenMP has
// bound the only thread before the library was loaded, those of the parent process are added.
// Thread-safe. Takes about 1 us, and 1 us for each thread of the process when the caller's
// processors are not the answer of the last call.
CpuSet ProcessCpus();

}  // namespace jobscope

#endif  // COMMON_PROCESS_PROCESS_CPUS_H_
