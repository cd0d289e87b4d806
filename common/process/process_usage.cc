// SPDX-License-Identifier: Apache-2.0
#include "common/process/process_usage.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace jobscope {
namespace {

constexpr size_t kStatBytes = 512;

bool ReadOfThread(pid_t thread, const char* name, char (*text)[kStatBytes]) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/self/task/%d/%s", static_cast<int>(thread), name);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t length = read(file, *text, kStatBytes - 1);
  close(file);
  (*text)[length > 0 ? length : 0] = '\0';
  return length > 0;
}

}  // namespace

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

std::optional<ThreadSchedule> ReadThreadSchedule(pid_t thread) {
  char text[kStatBytes];
  // Format: "time on a processor, time waiting for one, time slices", in nanoseconds.
  if (!ReadOfThread(thread, "schedstat", &text)) return std::nullopt;
  ThreadSchedule schedule;
  char* end = nullptr;
  schedule.cpu_ns = std::strtoull(text, &end, 10);
  char* waited_end = nullptr;
  schedule.waited_ns = std::strtoull(end, &waited_end, 10);
  if (waited_end == end) return std::nullopt;
  // Format: "tid (name) state ..."; the name may hold any byte.
  if (!ReadOfThread(thread, "stat", &text)) return std::nullopt;
  const char* const name_end = std::strrchr(text, ')');
  schedule.runnable = name_end != nullptr && std::strncmp(name_end, ") R", 3) == 0;
  return schedule;
}

}  // namespace jobscope
