// SPDX-License-Identifier: Apache-2.0
//
// What this process uses of its machine.
#ifndef COMMON_PROCESS_PROCESS_USAGE_H_
#define COMMON_PROCESS_PROCESS_USAGE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace jobscope {

struct ProcessSample {
  uint64_t cpu_ns = 0;                // user and system, all threads, since the process started
  std::optional<uint64_t> rss_bytes;  // absent where /proc/self/statm cannot be read
};

// Reads both; keeps /proc/self/statm open. Not thread-safe; a read takes about 2 us.
class ProcessUsageReader {
 public:
  ProcessUsageReader();
  ~ProcessUsageReader();
  ProcessUsageReader(const ProcessUsageReader&) = delete;
  ProcessUsageReader& operator=(const ProcessUsageReader&) = delete;

  ProcessSample Read() const;

 private:
  int statm_ = -1;
  uint64_t page_bytes_ = 4096;
};

// What a thread of this process had of the processors since it began.
struct ThreadSchedule {
  uint64_t cpu_ns = 0;
  uint64_t waited_ns = 0;  // able to run, before the last time that it ran
  bool runnable = false;   // now: it runs, or waits for a processor
};

// nullopt: there is no such thread, or the kernel does not count that. Takes about 20 us.
std::optional<ThreadSchedule> ReadThreadSchedule(pid_t thread);

}  // namespace jobscope

#endif  // COMMON_PROCESS_PROCESS_USAGE_H_
