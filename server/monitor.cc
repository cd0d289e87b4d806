// SPDX-License-Identifier: Apache-2.0
#include "server/monitor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"

namespace jobscope {
namespace {

std::optional<uint64_t> ReadRssBytes() {
  const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  char buffer[128];
  const ssize_t count = read(fd, buffer, sizeof(buffer));
  close(fd);
  if (count <= 0) return std::nullopt;
  absl::string_view text(buffer, static_cast<size_t>(count));
  const size_t space = text.find(' ');  // the second number is what is resident, in pages
  if (space == absl::string_view::npos) return std::nullopt;
  uint64_t pages = 0;
  const char* begin = text.data() + space + 1;
  if (std::from_chars(begin, text.data() + text.size(), pages).ec != std::errc())
    return std::nullopt;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

double Milliseconds(absl::Duration duration) { return absl::ToDoubleMilliseconds(duration); }

std::string DescribeSteps(const StepHistory& steps, const StepTimes& times) {
  if (steps.count == 0) return "steps: none recorded (mark them with JOBSCOPE_STEP)\n";
  std::string text = absl::StrCat("steps: ", steps.count, " begun");
  if (steps.current.has_value()) {
    absl::StrAppendFormat(&text, ", number %d runs for %.3f ms", steps.current->number,
                          Milliseconds(steps.current->length));
  }
  text.push_back('\n');
  if (times.count == 0) return text;
  absl::StrAppendFormat(
      &text, "step time: avg %.3f ms, min %.3f ms, max %.3f ms (%d steps %s)\n",
      Milliseconds(times.average), Milliseconds(times.shortest), Milliseconds(times.longest),
      times.count, times.in_window ? "ended in this time" : "before it: none ended in this time");
  return text;
}

}  // namespace

ProcessUsage ReadProcessUsage() {
  ProcessUsage usage;
  usage.at = absl::Now();
  rusage self = {};
  getrusage(RUSAGE_SELF, &self);
  usage.cpu = absl::DurationFromTimeval(self.ru_utime) + absl::DurationFromTimeval(self.ru_stime);
  usage.rss_bytes = ReadRssBytes();
  return usage;
}

StepTimes SummarizeSteps(const StepHistory& steps, absl::Duration window) {
  std::vector<StepTiming> chosen;
  for (const StepTiming& step : steps.recent) {
    if (step.ended <= window) chosen.push_back(step);
  }
  StepTimes times;
  times.in_window = !chosen.empty();
  if (chosen.empty()) chosen = steps.recent;
  if (chosen.empty()) return times;
  times.count = chosen.size();
  times.shortest = absl::InfiniteDuration();
  absl::Duration sum;
  for (const StepTiming& step : chosen) {
    sum += step.length;
    times.shortest = std::min(times.shortest, step.length);
    times.longest = std::max(times.longest, step.length);
  }
  times.average = sum / static_cast<int64_t>(chosen.size());
  return times;
}

tensorflow::MonitorResponse MakeMonitorResponse(const MonitorCall& call, const ProcessUsage& before,
                                                const ProcessUsage& after,
                                                const StepHistory& steps) {
  const StepTimes times = SummarizeSteps(steps, after.at - before.at);
  tensorflow::MonitorResponse response;
  std::string& text = *response.mutable_data();
  if (call.timestamp) {
    absl::StrAppend(&text, "time: ",
                    absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", after.at, absl::UTCTimeZone()), "\n");
  }
  text += DescribeSteps(steps, times);
  if (call.duration > absl::ZeroDuration() && after.at > before.at) {
    absl::StrAppendFormat(&text, "cpu: %.1f %%\n",
                          100.0 * absl::FDivDuration(after.cpu - before.cpu, after.at - before.at));
  }
  if (after.rss_bytes.has_value()) {
    absl::StrAppendFormat(&text, "rss: %.1f MiB\n",
                          static_cast<double>(*after.rss_bytes) / (1 << 20));
  }
  // The types above EMPTY_RESULT also promise numbers of a device, which this server does not have:
  // with steps the step times are what is meant, and the device's fields stay 0.
  auto* result = response.mutable_monitor_result();
  if (times.count == 0) return response;
  result->set_response_type(tensorflow::ProfilerServiceMonitorResult::UTIL_IDLE_STEP);
  result->set_step_time_ms_avg(Milliseconds(times.average));
  result->set_step_time_ms_min(Milliseconds(times.shortest));
  result->set_step_time_ms_max(Milliseconds(times.longest));
  return response;
}

}  // namespace jobscope
