// SPDX-License-Identifier: Apache-2.0
#include "server/tensorflow/monitor.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/clock/monotonic.h"
#include "common/process/process_usage.h"

namespace jobscope {
namespace {

// Numbers older than this are shown with their age: NVML did not answer in time.
constexpr uint64_t kOldGpusMs = 2'000;

double Milliseconds(absl::Duration duration) { return absl::ToDoubleMilliseconds(duration); }

// Summary of the times from the start of a step to that of the next one.
struct StepTimes {
  int64_t count = 0;
  bool in_window = true;
  absl::Duration average, shortest, longest;
};

// Summarizes the times that ended within `window` before now; all recent ones if none did.
StepTimes SummarizeSteps(const StepHistory& steps, absl::Duration window) {
  const std::vector<StepBegin> begins = StepBegins(steps);
  StepTimes times;
  if (begins.size() < 2) return times;
  times.in_window = begins[0].ago <= window;
  times.shortest = absl::InfiniteDuration();
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    if (times.in_window && begins[i].ago > window) break;
    const absl::Duration time = begins[i + 1].ago - begins[i].ago;
    ++times.count;
    times.average += time;
    times.shortest = std::min(times.shortest, time);
    times.longest = std::max(times.longest, time);
  }
  times.average /= times.count;
  return times;
}

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
      &text, "step time: avg %.3f ms, min %.3f ms, max %.3f ms (start to start, %d %s)\n",
      Milliseconds(times.average), Milliseconds(times.shortest), Milliseconds(times.longest),
      times.count, times.in_window ? "in this time" : "before it: none in this time");
  return text;
}

// "gpu 0 (NVIDIA H100): utilization 37 %, memory 3072.0 of 81920.0 MiB, power 350.5 W, ..."
std::string DescribeGpus(const v1::Gpus& gpus) {
  std::string text;
  for (const v1::Gpu& gpu : gpus.gpus()) {
    absl::StrAppend(&text, "gpu ", gpu.has_cuda_ordinal() ? gpu.cuda_ordinal() : gpu.index(), " (",
                    gpu.name(), ")");
    const char* separator = ": ";
    const auto add = [&](bool known, const std::string& what) {
      if (known) absl::StrAppend(&text, std::exchange(separator, ", "), what);
    };
    constexpr double kMebibyte = 1 << 20;
    add(gpu.has_utilization(),
        absl::StrCat("utilization ", gpu.utilization_percent(), " %, memory utilization ",
                     gpu.memory_utilization_percent(), " %"));
    add(gpu.memory_total_bytes() > 0,
        absl::StrFormat("memory %.1f of %.1f MiB",
                        static_cast<double>(gpu.memory_used_bytes()) / kMebibyte,
                        static_cast<double>(gpu.memory_total_bytes()) / kMebibyte));
    add(gpu.power_milliwatts() > 0, absl::StrFormat("power %.1f W", gpu.power_milliwatts() / 1e3));
    add(gpu.sm_clock_mhz() > 0, absl::StrCat("SM ", gpu.sm_clock_mhz(), " MHz, memory clock ",
                                             gpu.memory_clock_mhz(), " MHz"));
    add(gpu.temperature_celsius() > 0, absl::StrCat(gpu.temperature_celsius(), " C"));
    add(!gpu.failure().empty(), gpu.failure());
    text.push_back('\n');
  }
  if (!gpus.reason().empty()) absl::StrAppend(&text, "gpus: ", gpus.reason(), "\n");
  if (gpus.gpus_size() > 0 && gpus.age_ms() > kOldGpusMs) {
    absl::StrAppendFormat(&text, "gpus: as of %.1f s ago\n",
                          static_cast<double>(gpus.age_ms()) / 1e3);
  }
  return text;
}

}  // namespace

MonitorSample TakeMonitorSample() {
  const ProcessSample sample = ProcessUsageReader().Read();
  return {absl::FromUnixNanos(RealtimeNs()), SteadyNow(),
          absl::Nanoseconds(static_cast<int64_t>(sample.cpu_ns)), sample.rss_bytes};
}

tensorflow::MonitorResponse MakeMonitorResponse(const MonitorCall& call,
                                                const MonitorSample& before,
                                                const MonitorSample& after,
                                                const StepHistory& steps, const v1::Gpus* gpus) {
  const StepTimes times = SummarizeSteps(steps, after.at - before.at);
  tensorflow::MonitorResponse response;
  std::string& text = *response.mutable_data();
  if (call.timestamp) {
    absl::StrAppend(
        &text, "time: ", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", after.date, absl::UTCTimeZone()),
        "\n");
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
  if (gpus != nullptr) text += DescribeGpus(*gpus);
  // The types above EMPTY_RESULT also promise device numbers, which this server does not have. With
  // steps, the type stands for the step times, and the device's fields stay 0.
  auto* result = response.mutable_monitor_result();
  if (times.count == 0) return response;
  result->set_response_type(tensorflow::ProfilerServiceMonitorResult::UTIL_IDLE_STEP);
  result->set_step_time_ms_avg(Milliseconds(times.average));
  result->set_step_time_ms_min(Milliseconds(times.shortest));
  result->set_step_time_ms_max(Milliseconds(times.longest));
  return response;
}

}  // namespace jobscope
