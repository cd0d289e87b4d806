// SPDX-License-Identifier: Apache-2.0
//
// The collector of what GPUs are busy with, as their driver tells: counters.
#ifndef COLLECTORS_NVML_NVML_COLLECTOR_H_
#define COLLECTORS_NVML_NVML_COLLECTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "collectors/nvml/gpu_monitor.h"
#include "common/clock/clock.h"
#include "common/xspace/segment/segment.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

struct NvmlCollectorOptions {
  nvml::MonitorOptions monitor;
  bool off = false;  // JOBSCOPE_NVML_MS=0

  // JOBSCOPE_NVML_MS: milliseconds between samples, 10 to 60,000; JOBSCOPE_NVML_LIBRARY: the
  // library; CUDA_VISIBLE_DEVICES. What the environment says wrongly is left at its default. Read
  // now, not later: the application may be changing its environment by then.
  static NvmlCollectorOptions FromEnvironment();
};

// Samples the GPUs of this process (all of the machine where it is not told which those are) on a
// thread of its own. Each GPU has a plane `/device:CUSTOM:NVML:<n>` with XProf's line of counters:
// on the GPU's own plane, XProf would stretch steps by them. No verb waits for NVML, but Arm, and
// that for half a second at most.
class NvmlCollector : public Collector {
 public:
  // `uses_tsc`: what the session's ticks are.
  NvmlCollector(bool uses_tsc, NvmlCollectorOptions options);
  ~NvmlCollector() override;
  NvmlCollector(const NvmlCollector&) = delete;
  NvmlCollector& operator=(const NvmlCollector&) = delete;

  std::string_view name() const override { return "nvml"; }
  CollectorReport Describe() const override;
  std::string WhyOff(const ArmRequest& request) const override;
  absl::Status Arm(const ArmRequest& request) override;
  absl::Status Start(const StartRequest& request) override;
  absl::Duration Drain() override;
  absl::Status Stop(uint64_t end_ticks) override;
  CollectorReport Report() override;

  // The newest that is known of the GPUs; never waits. Any thread.
  v1::Gpus Gpus() const;
  // Asks for something newer than `max_age`: GpuMonitor::Refresh. Any thread.
  bool RefreshGpus(absl::Duration max_age, std::function<void()> done);

 private:
  struct Counters;  // of one GPU
  void Add(const nvml::Sample& sample);
  void AddCounter(Counters* counters, const char* what, uint64_t ticks, double value);
  Counters& CountersOf(const nvml::Gpu& gpu);
  // State and reason, as far as the monitor knows.
  CollectorReport Judge() const;

  const bool uses_tsc_;
  const NvmlCollectorOptions options_;
  nvml::GpuMonitor monitor_;

  // One session's, of the collector's thread.
  ArmRequest request_;
  bool on_ = false;
  bool started_ = false;
  TickMap map_;
  uint64_t start_ticks_ = 0;
  std::vector<nvml::Sample> pending_;  // wait until they are known to lie before the session's end
  std::map<std::string, std::unique_ptr<Counters>> gpus_;  // by UUID
  std::map<std::string, std::string> lost_gpus_;           // number of the GPU to what happened
  uint64_t failed_ = 0;
  std::string failure_;
  uint64_t unnamed_ = 0;  // counters whose names the store had no room for
  CollectorReport report_;
};

}  // namespace jobscope

#endif  // COLLECTORS_NVML_NVML_COLLECTOR_H_
