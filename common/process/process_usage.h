// SPDX-License-Identifier: Apache-2.0
//
// Reads what this process uses of its machine.
#ifndef COMMON_PROCESS_PROCESS_USAGE_H_
#define COMMON_PROCESS_PROCESS_USAGE_H_

#include <cstdint>
#include <optional>

namespace jobscope {

struct ProcessSample {
  // User and system time of all threads since the process started.
  uint64_t cpu_ns = 0;
  std::optional<uint64_t> rss_bytes;  // absent if /proc/self/statm cannot be read
};

// Reads CPU time and resident memory of this process; keeps /proc/self/statm open. Not thread-safe.
// A read takes about 2 us.
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

}  // namespace jobscope

#endif  // COMMON_PROCESS_PROCESS_USAGE_H_
