// SPDX-License-Identifier: Apache-2.0
#include "common/process/process_usage.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

namespace jobscope {
ProcessUsageReader::ProcessUsageReader() : statm_(open("/proc/self/statm", O_RDONLY | O_CLOEXEC)) {
  if (const long page = sysconf(_SC_PAGESIZE); page > 0) page_bytes_ = static_cast<uint64_t>(page);
}

ProcessUsageReader::~ProcessUsageReader() {
  if (statm_ >= 0) close(statm_);
}

ProcessSample ProcessUsageReader::Read() const {
  ProcessSample sample;
  struct timespec cpu;
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0) {
    sample.cpu_ns =
        static_cast<uint64_t>(cpu.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(cpu.tv_nsec);
  }
  // Format: "size resident shared text lib data dt", in pages.
  char text[128];
  const ssize_t length = statm_ < 0 ? -1 : pread(statm_, text, sizeof(text) - 1, 0);
  if (length <= 0) return sample;
  text[length] = '\0';
  char* end = nullptr;
  std::strtoull(text, &end, 10);
  char* resident_end = nullptr;
  const uint64_t resident = std::strtoull(end, &resident_end, 10);
  if (resident_end != end) sample.rss_bytes = resident * page_bytes_;
  return sample;
}

}  // namespace jobscope
