// SPDX-License-Identifier: Apache-2.0
//
// Collects what the process uses and is denied: CPU time, memory, page faults, throttling, as
// counters.
#ifndef COLLECTORS_SYSTEM_SYSTEM_COLLECTOR_H_
#define COLLECTORS_SYSTEM_SYSTEM_COLLECTOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "collectors/system/cgroup_throttling.h"
#include "common/clock/clock.h"
#include "common/process/process_usage.h"
#include "common/xspace/segment/counter.h"
#include "common/xspace/segment/segment.h"

namespace jobscope {

// Samples the process every 100 ms of a capture, at less than 0.1 ms each. Since the previous
// sample:
//
//   process CPU (%)           100: one core busy
//   process RSS (MiB)         current value
//   page faults (1/s)         without I/O
//   major page faults (1/s)   with I/O
//   cgroup throttled (%)      share of periods in which a cgroup of the process exhausted its CPU
//                             quota; absent without a quota
//   cgroup throttled (ms)     how long its threads were kept from running, summed over processors;
//                             absent without a quota
//
// The counters are on the line `_counters_` of the host plane, beside those that the program itself
// records. Nothing is sampled while no capture runs. Off if the host level is 0.
class SystemCollector : public Collector {
 public:
  // `uses_tsc`: whether the session's ticks are TSC.
  explicit SystemCollector(bool uses_tsc) : uses_tsc_(uses_tsc) {}
  SystemCollector(const SystemCollector&) = delete;
  SystemCollector& operator=(const SystemCollector&) = delete;

  std::string_view name() const override { return "system"; }
  CollectorReport Describe() const override { return {}; }
  std::string WhyOff(const ArmRequest& request) const override;
  absl::Status Arm(const ArmRequest& request) override;
  absl::Status Start(const StartRequest& request) override;
  absl::Duration Drain() override;
  absl::Status Stop(uint64_t end_ticks) override;
  CollectorReport Report() override;

 private:
  struct Sample {
    uint64_t ticks = 0;
    ProcessSample usage;
    uint64_t page_faults = 0;  // since the process started
    uint64_t major_page_faults = 0;
    std::optional<Throttling> throttling;
  };
  enum Kind : size_t { kCpu, kRss, kFaults, kMajorFaults, kThrottled, kThrottledMs, kKinds };

  Sample Take() const;
  // Adds the counters of the interval since `before_`, as of `at_ticks`.
  void Add(const Sample& sample, uint64_t at_ticks);
  // Adds the rates of what grew since `before_`, `seconds` before `sample`.
  void AddRates(const Sample& sample, double seconds, uint64_t at_ticks);
  void AddCounter(Kind kind, uint64_t ticks, double value);

  const bool uses_tsc_;
  // State of one session, from Arm to Report.
  ArmRequest request_;
  bool on_ = false;
  bool started_ = false;
  TickMap map_;
  uint64_t start_ticks_ = 0;
  std::unique_ptr<ProcessUsageReader> reader_;
  std::unique_ptr<xspace::SegmentBuilder> builder_;
  std::unique_ptr<CgroupThrottling> cgroups_;
  std::array<xspace::Counter, kKinds> counters_ = {};
  Sample before_;
  std::optional<Sample> pending_;  // until it is known to lie before the session's end
  uint64_t unnamed_ = 0;           // counters whose names did not fit into the store
  CollectorReport report_;
};

}  // namespace jobscope

#endif  // COLLECTORS_SYSTEM_SYSTEM_COLLECTOR_H_
