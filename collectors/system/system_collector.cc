// SPDX-License-Identifier: Apache-2.0
#include "collectors/system/system_collector.h"

#include <sys/resource.h>

#include <algorithm>
#include <string_view>

#include "common/xspace/segment/names.h"
#include "common/xspace/segment/trace_planes.h"
#include "jobscope/detail/ticks.h"

namespace jobscope {
namespace {

constexpr absl::Duration kSampleEvery = absl::Milliseconds(100);
// A rate over a shorter interval describes the scheduler rather than the process.
constexpr double kMinIntervalSeconds = 0.005;

// In the order of Kind.
constexpr std::array<std::string_view, 6> kCounterNames = {
    "process CPU (%)",         "process RSS (MiB)",    "page faults (1/s)",
    "major page faults (1/s)", "cgroup throttled (%)", "cgroup throttled (ms)"};

}  // namespace

std::string SystemCollector::WhyOff(const ArmRequest& request) const {
  return request.recording.host_tracer_level > 0 ? "" : "host_tracer_level is 0";
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
    report_.state = CollectorState::kOff;
    return absl::OkStatus();
  }
  reader_ = std::make_unique<ProcessUsageReader>();
  cgroups_ = std::make_unique<CgroupThrottling>();
  return absl::OkStatus();
}

absl::Status SystemCollector::Start(const StartRequest& request) {
  if (!on_) return absl::OkStatus();
  started_ = true;
  map_ = request.map;
  start_ticks_ = request.start_ticks;
  counters_ = {};
  builder_ = std::make_unique<xspace::SegmentBuilder>(
      request_.sink, kSourceSystem, [names = request_.names] {
        const xspace::PlaneKey plane = names->Plane(kHostPlaneName, kHostPlaneId);
        return xspace::LineKey{plane, names->Line(plane, kCountersLine, kCountersLineName)};
      });
  before_ = Take();
  return absl::OkStatus();
}

SystemCollector::Sample SystemCollector::Take() const {
  Sample sample;
  sample.ticks = detail::ReadTicks(uses_tsc_);
  sample.usage = reader_->Read();
  rusage resources = {};
  if (getrusage(RUSAGE_SELF, &resources) == 0) {
    sample.page_faults = static_cast<uint64_t>(resources.ru_minflt);
    sample.major_page_faults = static_cast<uint64_t>(resources.ru_majflt);
  }
  sample.throttling = cgroups_->Read();
  return sample;
}

absl::Duration SystemCollector::Drain() {
  if (!started_) return absl::InfiniteDuration();
  if (pending_.has_value()) Add(*pending_, pending_->ticks);
  pending_ = Take();
  return kSampleEvery;
}

void SystemCollector::Add(const Sample& sample, uint64_t at_ticks) {
  // A sample before the window only provides the base of the next rate.
  const bool inside = at_ticks >= start_ticks_;
  const double seconds =
      static_cast<double>(sample.ticks - before_.ticks) / map_.ticks_per_second();
  if (seconds >= kMinIntervalSeconds) {
    if (inside) AddRates(sample, seconds, at_ticks);
    before_ = sample;
  }
  if (inside && sample.usage.rss_bytes.has_value()) {
    AddCounter(kRss, at_ticks, static_cast<double>(*sample.usage.rss_bytes) / (1 << 20));
  }
}

void SystemCollector::AddRates(const Sample& sample, double seconds, uint64_t at_ticks) {
  // A decrease means that the cgroup changed.
  const auto grown = [](uint64_t before, uint64_t now) {
    return static_cast<double>(now > before ? now - before : 0);
  };
  AddCounter(kCpu, at_ticks, 1e-7 * grown(before_.usage.cpu_ns, sample.usage.cpu_ns) / seconds);
  AddCounter(kFaults, at_ticks, grown(before_.page_faults, sample.page_faults) / seconds);
  AddCounter(kMajorFaults, at_ticks,
             grown(before_.major_page_faults, sample.major_page_faults) / seconds);
  if (!sample.throttling.has_value() || !before_.throttling.has_value()) return;
  const double periods = grown(before_.throttling->periods, sample.throttling->periods);
  if (periods == 0) return;  // no quota, or nothing runnable
  AddCounter(
      kThrottled, at_ticks,
      100 * grown(before_.throttling->throttled_periods, sample.throttling->throttled_periods) /
          periods);
  AddCounter(kThrottledMs, at_ticks,
             1e-6 * grown(before_.throttling->throttled_ns, sample.throttling->throttled_ns));
}

void SystemCollector::AddCounter(Kind kind, uint64_t ticks, double value) {
  ++report_.attempted;
  xspace::Counter& counter = counters_[kind];
  if (!counter.declared()) {
    static_assert(kCounterNames.size() == kKinds);
    xspace::Names* const names = request_.names;
    counter.Declare(names, names->Plane(kHostPlaneName, kHostPlaneId), kCounterNames[kind]);
  }
  if (!counter.declared()) {
    ++unnamed_;
    return;
  }
  counter.AddSample(map_.ToPs(ticks), value, builder_.get());
}

absl::Status SystemCollector::Stop(uint64_t end_ticks) {
  if (!started_) return absl::OkStatus();
  started_ = false;
  if (pending_.has_value() && pending_->ticks <= end_ticks) Add(*pending_, pending_->ticks);
  pending_.reset();
  // The last interval ends now and is recorded at the window's end.
  const Sample last = Take();
  const uint64_t at_ticks = std::min(last.ticks, end_ticks);
  if (at_ticks > before_.ticks) Add(last, at_ticks);
  builder_->Flush();
  report_.events = builder_->appended_events();
  const uint64_t lost = builder_->refused_events() + unnamed_;
  if (lost > 0) report_.lost_by_cause[LossCause::kStoreFull] = lost;
  builder_.reset();
  return absl::OkStatus();
}

CollectorReport SystemCollector::Report() {
  started_ = false;
  reader_.reset();
  cgroups_.reset();
  builder_.reset();
  return report_;
}

}  // namespace jobscope
