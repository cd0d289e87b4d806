// SPDX-License-Identifier: Apache-2.0
#include "common/process/starvation.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
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

Starvation::Starvation(pid_t thread)
    : thread_(thread), begin_(ReadSchedule()), begin_time_(Clock::now()) {}

Starvation::Clock::duration Starvation::Lasted() const {
  const std::optional<Schedule> now = ReadSchedule();
  if (!begin_.has_value() || !now.has_value()) return {};
  // The kernel accounts a wait only when it ends. A wait in progress is the elapsed time minus the
  // thread's CPU time.
  if (!now->runnable) return std::chrono::nanoseconds(now->waited_ns - begin_->waited_ns);
  const Clock::duration passed = Clock::now() - begin_time_;
  return std::max(passed - std::chrono::nanoseconds(now->cpu_ns - begin_->cpu_ns),
                  Clock::duration::zero());
}

std::optional<Starvation::Schedule> Starvation::ReadSchedule() const {
  char text[kStatBytes];
  // Format: "time on a processor, time waiting for one, time slices", in nanoseconds.
  if (!ReadOfThread(thread_, "schedstat", &text)) return std::nullopt;
  Schedule schedule;
  char* end = nullptr;
  schedule.cpu_ns = std::strtoull(text, &end, 10);
  char* waited_end = nullptr;
  schedule.waited_ns = std::strtoull(end, &waited_end, 10);
  if (waited_end == end) return std::nullopt;
  // Format: "tid (name) state ..."; the name may hold any byte.
  if (!ReadOfThread(thread_, "stat", &text)) return std::nullopt;
  const char* const name_end = std::strrchr(text, ')');
  schedule.runnable = name_end != nullptr && std::strncmp(name_end, ") R", 3) == 0;
  return schedule;
}

}  // namespace jobscope
