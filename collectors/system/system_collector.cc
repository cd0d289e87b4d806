// SPDX-License-Identifier: Apache-2.0
#include "collectors/system/system_collector.h"

#include <algorithm>

#include "common/xspace/names.h"
#include "common/xspace/stats.h"
#include "common/xspace/trace_planes.h"
#include "jobscope/detail/ticks.h"

namespace jobscope {
namespace {

constexpr absl::Duration kSampleEvery = absl::Milliseconds(100);
// A rate over less than this says more about the scheduler than about the process.
constexpr double kMinIntervalSeconds = 0.005;

constexpr std::string_view kCpuName = "process CPU (%)";
constexpr std::string_view kRssName = "process RSS (MiB)";

}  // namespace

std::string SystemCollector::WhyOff(const ArmRequest& request) const {
  return request.levels.host > 0 ? "" : "host_tracer_level is 0";
}

absl::Status SystemCollector::Arm(const ArmRequest& request) {
  request_ = request;
  report_ = {};
  started_ = false;
  pending_.reset();
  unnamed_ = 0;
  report_.reason = WhyOff(request);
  on_ = report_.reason.empty();
  if (!on_) {
    report_.state = "off";
    return absl::OkStatus();
  }
  reader_ = std::make_unique<ProcessUsageReader>();
  return absl::OkStatus();
}

absl::Status SystemCollector::Start(const StartRequest& request) {
  if (!on_) return absl::OkStatus();
  started_ = true;
  map_ = request.map;
  start_ticks_ = request.start_ticks;
  xspace::Names* const names = request_.names;
  const xspace::PlaneKey plane = names->Plane(kHostPlaneName, kHostPlaneId);
  const int64_t line = names->Line(plane, kCountersLine, kCountersLineName);
  cpu_event_ = names->Event(plane, kCpuName);
  cpu_stat_ = names->Stat(plane, kCpuName);
  rss_event_ = names->Event(plane, kRssName);
  rss_stat_ = names->Stat(plane, kRssName);
  builder_ = std::make_unique<xspace::SegmentBuilder>(request_.sink, plane, line, kSourceSystem);
  before_ = Take();
  return absl::OkStatus();
}

SystemCollector::Sample SystemCollector::Take() const {
  return {detail::ReadTicks(uses_tsc_), reader_->Read()};
}

absl::Duration SystemCollector::Drain() {
  if (!started_) return absl::InfiniteDuration();
  if (pending_.has_value()) Add(*pending_, pending_->ticks);
  pending_ = Take();
  return kSampleEvery;
}

void SystemCollector::Add(const Sample& sample, uint64_t at_ticks) {
  // One that was taken before the window began only gives the rate of the next.
  const bool inside = at_ticks >= start_ticks_;
  const double seconds =
      static_cast<double>(sample.ticks - before_.ticks) / map_.ticks_per_second();
  if (seconds >= kMinIntervalSeconds) {
    const double cpu_seconds =
        static_cast<double>(sample.usage.cpu_ns - before_.usage.cpu_ns) * 1e-9;
    if (inside) AddCounter(cpu_event_, cpu_stat_, at_ticks, 100 * cpu_seconds / seconds);
    before_ = sample;
  }
  if (inside && sample.usage.rss_bytes.has_value()) {
    AddCounter(rss_event_, rss_stat_, at_ticks,
               static_cast<double>(*sample.usage.rss_bytes) / (1 << 20));
  }
}

void SystemCollector::AddCounter(uint64_t event_id, uint64_t stat_id, uint64_t ticks,
                                 double value) {
  ++report_.attempted;
  if (event_id == 0 || stat_id == 0) {
    ++unnamed_;
    return;
  }
  xspace::StatsEncoder stats(xspace::StatsOf::kEvent);
  stats.Double(stat_id, value);
  xspace::SegmentEvent event;
  event.start_ps = map_.ToPs(ticks);
  event.duration_ps = 1;
  event.metadata_id = event_id;
  event.stats = stats.bytes();
  builder_->Add(event);
}

absl::Status SystemCollector::Stop(uint64_t end_ticks) {
  if (!started_) return absl::OkStatus();
  started_ = false;
  if (pending_.has_value() && pending_->ticks <= end_ticks) Add(*pending_, pending_->ticks);
  pending_.reset();
  // The last interval ends now, and is told at the window's end.
  const Sample last = Take();
  const uint64_t at_ticks = std::min(last.ticks, end_ticks);
  if (at_ticks > before_.ticks) Add(last, at_ticks);
  builder_->Flush();
  report_.events = builder_->appended_events();
  const uint64_t lost = builder_->refused_events() + unnamed_;
  if (lost > 0) report_.lost_by_cause["store_full"] = lost;
  builder_.reset();
  return absl::OkStatus();
}

CollectorReport SystemCollector::Report() {
  started_ = false;
  reader_.reset();
  builder_.reset();
  return report_;
}

}  // namespace jobscope
