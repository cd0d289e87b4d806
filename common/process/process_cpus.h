// SPDX-License-Identifier: Apache-2.0
//
// Determines the processors that a process may run on, as opposed to one of its threads.
#ifndef COMMON_PROCESS_PROCESS_CPUS_H_
#define COMMON_PROCESS_PROCESS_CPUS_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace jobscope {

// Represents a set of processors, as the scheduler does.
class CpuSet {
 public:
  // Reads the set of a thread; 0 means the calling one. Empty if it cannot be read.
  static CpuSet OfThread(pid_t tid);

  void Add(const CpuSet& others);
  size_t count() const;
  friend bool operator==(const CpuSet& a, const CpuSet& b) { return a.words_ == b.words_; }

  // Binds the calling thread to the set. Does nothing for an empty set or one that the system
  // refuses.
  void ApplyToThisThread() const;

 private:
  std::array<uint64_t, 128> words_{};  // kernel limit: 8,192 processors
};

// Returns the processors of this process: those that any of its threads may run on, now or, at the
// first call, when this library was loaded. A thread that binds itself to a core, as OpenMP's do
// (OMP_PROC_BIND), does not narrow them; taskset on the whole process does. If OpenMP had bound the
// only thread before the library was loaded, the parent process's processors are added.
// Thread-safe. Takes about 1 us, plus 1 us per thread of the process if the caller's processors
// differ from the last answer.
CpuSet ProcessCpus();

}  // namespace jobscope

#endif  // COMMON_PROCESS_PROCESS_CPUS_H_
