// SPDX-License-Identifier: Apache-2.0
#include "common/process/process_usage.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "common/descriptors/standard_descriptors.h"
#include "common/process/proc_files.h"

namespace jobscope {
ProcessUsageReader::ProcessUsageReader()
    : statm_(AboveStandard(open("/proc/self/statm", O_RDONLY | O_CLOEXEC))) {
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
  char text[128];
  const ssize_t length = statm_ < 0 ? -1 : pread(statm_, text, sizeof(text), 0);
  if (length <= 0) return sample;
  const auto resident = ResidentPagesInStatm({text, static_cast<size_t>(length)});
  if (resident.has_value()) sample.rss_bytes = *resident * page_bytes_;
  return sample;
}

}  // namespace jobscope
