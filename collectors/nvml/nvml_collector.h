// SPDX-License-Identifier: Apache-2.0
//
// Collects the utilisation of GPUs, as reported by their driver, as counters.
#ifndef COLLECTORS_NVML_NVML_COLLECTOR_H_
#define COLLECTORS_NVML_NVML_COLLECTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "collectors/nvml/gpu_monitor.h"
#include "collectors/nvml/nvml_options.h"
#include "common/clock/clock.h"
#include "common/xspace/segment/segment.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

// Samples the GPUs of this process (all of the machine if its own are unknown) on a thread of its
// own. Each GPU has a plane `/device:CUSTOM:NVML:<n>` with XProf's line of counters: on the GPU's
// own plane, they would stretch XProf's steps. Only Arm waits for NVML, for at most half a second.
class NvmlCollector : public Collector {
 public:
  // `uses_tsc`: whether the session's ticks are TSC.
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

  // Returns the latest state of the GPUs. Never blocks. Any thread.
  v1::Gpus Gpus() const;
  // Requests a state not older than `max_age`, see GpuMonitor::Refresh. Any thread.
  bool RefreshGpus(absl::Duration max_age, std::function<void()> done);

 private:
  struct Counters;  // of one GPU
  void Add(const nvml::Sample& sample);
  void AddCounter(Counters* counters, const char* what, uint64_t ticks, double value);
  Counters& CountersOf(const nvml::Gpu& gpu);
  // Declares the plane, unless it is declared.
  void DeclarePlane(Counters* counters, const nvml::Gpu& gpu);
  // Returns state and reason, as far as the monitor knows them.
  CollectorReport Judge() const;

  const bool uses_tsc_;
  const NvmlCollectorOptions options_;
  nvml::GpuMonitor monitor_;

  // State of one session, used only by the collector's thread.
  ArmRequest request_;
  bool on_ = false;
  bool started_ = false;
  TickMap map_;
  uint64_t start_ticks_ = 0;
  std::vector<nvml::Sample> pending_;  // until they are known to lie before the session's end
  // By UUID and number: a UUID that cannot be read is empty.
  std::map<std::pair<std::string, uint32_t>, std::unique_ptr<Counters>> gpus_;
  std::map<std::string, std::string> lost_gpus_;  // reason by number of the GPU
  uint64_t failed_ = 0;
  std::string failure_;
  uint64_t unnamed_ = 0;  // counters whose names did not fit into the store
  CollectorReport report_;
};

}  // namespace jobscope

#endif  // COLLECTORS_NVML_NVML_COLLECTOR_H_
