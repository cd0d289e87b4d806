// SPDX-License-Identifier: Apache-2.0
#include "common/process/starvation.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "common/process/proc_files.h"

namespace jobscope {
namespace {

constexpr size_t kStatBytes = 512;

// Empty: the file cannot be read.
std::string_view ReadOfThread(pid_t thread, const char* name, char (*text)[kStatBytes]) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/self/task/%d/%s", static_cast<int>(thread), name);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t length = read(file, *text, kStatBytes);
  close(file);
  return {*text, length > 0 ? static_cast<size_t>(length) : 0};
}

}  // namespace

Starvation::Starvation(pid_t thread)
    : thread_(thread), begin_(ReadSchedule()), begin_time_(Clock::now()) {}

Starvation::Clock::duration Starvation::Lasted() const {
  const std::optional<Schedule> now = ReadSchedule();
  if (!begin_.has_value() || !now.has_value()) return {};
  // The kernel accounts a wait only when it ends. A wait in progress is the elapsed time minus the
  // thread's CPU time.
  const ThreadTimes& begin = begin_->times;
  if (!now->runnable) return std::chrono::nanoseconds(now->times.waited_ns - begin.waited_ns);
  const Clock::duration passed = Clock::now() - begin_time_;
  return std::max(passed - std::chrono::nanoseconds(now->times.cpu_ns - begin.cpu_ns),
                  Clock::duration::zero());
}

std::optional<Starvation::Schedule> Starvation::ReadSchedule() const {
  char text[kStatBytes];
  const auto times = TimesInSchedstat(ReadOfThread(thread_, "schedstat", &text));
  if (!times.has_value()) return std::nullopt;
  const std::string_view stat = ReadOfThread(thread_, "stat", &text);
  if (stat.empty()) return std::nullopt;
  return Schedule{*times, StateInStat(stat) == 'R'};
}

}  // namespace jobscope
