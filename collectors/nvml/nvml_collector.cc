// SPDX-License-Identifier: Apache-2.0
#include "collectors/nvml/nvml_collector.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "collectors/nvml/nvml_api.h"
#include "common/clock/monotonic.h"
#include "common/xspace/segment/counter.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/stats.h"
#include "common/xspace/segment/trace_planes.h"

namespace jobscope {
namespace {

using nvml::Snapshot;

// Plus the number of the GPU. Differs from the planes of common/xspace/segment/trace_planes.h and
// of CUDA.
constexpr int64_t kPlaneId = 300;
constexpr absl::Duration kDrainEvery = absl::Milliseconds(500);
constexpr double kMebibyte = 1 << 20;

constexpr uint64_t kLimitsOfPower = nvml::kLimitSoftwarePowerCap | nvml::kLimitPowerBrake;
constexpr uint64_t kLimitsOfHeat =
    nvml::kLimitSoftwareThermal | nvml::kLimitHardwareThermal | nvml::kLimitHardwareSlowdown;

template <typename Number>
double AsDouble(Number number) {
  return static_cast<double>(number);
}

}  // namespace

struct NvmlCollector::Counters {
  std::string plane_name;
  xspace::PlaneKey plane = 0;  // 0: the store has had no space to declare it
  std::string prefix;          // "GPU 0 "
  std::unique_ptr<xspace::SegmentBuilder> builder;
  std::map<std::string_view, xspace::Counter> of_name;  // keyed by literals
  uint64_t samples = 0;
  uint64_t hot = 0;  // of those: clocks limited by heat
};

NvmlCollector::NvmlCollector(bool uses_tsc, NvmlCollectorOptions options)
    : uses_tsc_(uses_tsc), options_(std::move(options)), monitor_(options_.monitor) {}

NvmlCollector::~NvmlCollector() = default;

CollectorReport NvmlCollector::Judge() const {
  CollectorReport report;
  if (options_.off) {
    report.state = CollectorState::kOff;
    report.reason = "JOBSCOPE_NVML_MS is 0";
    return report;
  }
  if (std::string hang = monitor_.Hang(); !hang.empty()) {
    report.state = CollectorState::kFailed;
    report.reason = std::move(hang);
    return report;
  }
  const Snapshot snapshot = monitor_.Latest();
  if (snapshot.state == Snapshot::kAbsent || snapshot.state == Snapshot::kFailed) {
    report.absent = snapshot.state == Snapshot::kAbsent;
    report.state = report.absent ? CollectorState::kOff : CollectorState::kFailed;
    report.reason = snapshot.reason;
  } else if (!snapshot.notes.empty()) {
    report.state = CollectorState::kDegraded;
    report.reason = snapshot.notes[0];
  }
  return report;
}

CollectorReport NvmlCollector::Describe() const { return Judge(); }

std::string NvmlCollector::WhyOff(const ArmRequest& request) const {
  if (request.recording.device_tracer_level <= 0) return "device_tracer_level is 0";
  if (!options_.off && !monitor_.RemembersAbsence()) return {};
  CollectorReport judged = Judge();
  return judged.state == CollectorState::kOff ? std::move(judged.reason) : "";
}

absl::Status NvmlCollector::Arm(const ArmRequest& request) {
  request_ = request;
  report_ = {};
  started_ = on_ = false;
  pending_.clear();
  gpus_.clear();
  lost_gpus_.clear();
  failed_ = unnamed_ = 0;
  if (std::string why = WhyOff(request); !why.empty()) {
    report_.state = CollectorState::kOff;
    report_.reason = std::move(why);
    return absl::OkStatus();
  }
  // GPUs that answer later are sampled from then on.
  (void)monitor_.Prepare(options_.arm_waits);
  CollectorReport judged = Judge();
  report_.state = judged.state;
  report_.reason = judged.reason;
  if (judged.state == CollectorState::kFailed) return absl::FailedPreconditionError(judged.reason);
  on_ = judged.state != CollectorState::kOff;
  return absl::OkStatus();
}

absl::Status NvmlCollector::Start(const StartRequest& request) {
  if (!on_) return absl::OkStatus();
  started_ = true;
  map_ = request.map;
  start_ticks_ = request.start_ticks;
  monitor_.StartSampling(uses_tsc_);
  return absl::OkStatus();
}

absl::Duration NvmlCollector::Drain() {
  if (!started_) return absl::InfiniteDuration();
  for (const nvml::Sample& sample : pending_) Add(sample);
  pending_ = monitor_.TakeSamples();
  return std::max(kDrainEvery, options_.monitor.every);
}

NvmlCollector::Counters& NvmlCollector::CountersOf(const nvml::Gpu& gpu) {
  std::unique_ptr<Counters>& known = gpus_[{gpu.uuid, gpu.number()}];
  if (known != nullptr) {
    DeclarePlane(known.get(), gpu);
    return *known;
  }
  auto counters = std::make_unique<Counters>();
  std::string plane = absl::StrCat("/device:CUSTOM:NVML:", gpu.number());
  // Two instances of one GPU whose order CUDA does not report.
  for (const auto& [key, other] : gpus_) {
    if (other != nullptr && other->prefix == absl::StrCat("GPU ", gpu.number(), " ")) {
      plane = absl::StrCat("/device:CUSTOM:NVML:", gpu.uuid);
    }
  }
  counters->prefix = absl::StrCat("GPU ", gpu.number(), " ");
  counters->plane_name = std::move(plane);
  const auto declare = [names = request_.names, counters = counters.get()] {
    return xspace::LineKey{counters->plane,
                           names->Line(counters->plane, kCountersLine, kCountersLineName)};
  };
  counters->builder = std::make_unique<xspace::SegmentBuilder>(request_.sink, kSourceNvml, declare);
  DeclarePlane(counters.get(), gpu);
  known = std::move(counters);
  return *known;
}

void NvmlCollector::DeclarePlane(Counters* counters, const nvml::Gpu& gpu) {
  if (counters->plane != 0) return;
  xspace::Names* const names = request_.names;
  counters->plane = names->Plane(counters->plane_name, kPlaneId + gpu.number());
  if (counters->plane == 0) return;
  xspace::StatsEncoder stats(xspace::StatsOf::kPlane);
  const auto text = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) stats.String(names->Stat(counters->plane, name), value);
  };
  text("gpu_device_name", gpu.name);
  text("uuid", gpu.uuid);
  text("pci_bus_id", gpu.pci_bus_id);
  (void)names->AddPlaneStats(counters->plane, stats.bytes());
}

void NvmlCollector::AddCounter(Counters* counters, const char* what, uint64_t ticks, double value) {
  ++report_.attempted;
  xspace::Counter& counter = counters->of_name[what];
  if (!counter.declared()) {
    counter.Declare(request_.names, counters->plane, counters->prefix + what);
  }
  if (!counter.declared()) {
    ++unnamed_;
    return;
  }
  counter.AddSample(map_.ToPs(ticks), value, counters->builder.get());
}

void NvmlCollector::Add(const nvml::Sample& sample) {
  if (sample.ticks < start_ticks_) return;
  const nvml::Reading& reading = sample.reading;
  // A lost GPU provides nothing more; several failures of one reading are one loss.
  if (reading.failed > 0) {
    failed_ += reading.failed;
    report_.attempted += reading.failed;
    failure_ = reading.failure;
    if (reading.lost) {
      lost_gpus_.emplace(absl::StrCat("GPU ", sample.gpu->number()), reading.failure);
    }
  }
  Counters& counters = CountersOf(*sample.gpu);
  const auto add = [&](const char* what, const auto& value, double divisor) {
    if (value.has_value()) AddCounter(&counters, what, sample.ticks, AsDouble(*value) / divisor);
  };
  add("utilization (%)", reading.utilization_percent, 1);
  add("memory utilization (%)", reading.memory_utilization_percent, 1);
  add("memory used (MiB)", reading.memory_used_bytes, kMebibyte);
  add("power (W)", reading.power_milliwatts, 1000);
  add("SM clock (MHz)", reading.sm_clock_mhz, 1);
  add("memory clock (MHz)", reading.memory_clock_mhz, 1);
  add("temperature (C)", reading.temperature_celsius, 1);
  if (!reading.limits.has_value()) return;
  const bool hot = (*reading.limits & kLimitsOfHeat) != 0;
  ++counters.samples;
  counters.hot += hot ? 1 : 0;
  AddCounter(&counters, "clocks limited by power", sample.ticks,
             (*reading.limits & kLimitsOfPower) != 0 ? 1 : 0);
  AddCounter(&counters, "clocks limited by heat", sample.ticks, hot ? 1 : 0);
}

absl::Status NvmlCollector::Stop(uint64_t end_ticks) {
  if (!started_) return absl::OkStatus();
  started_ = false;
  monitor_.StopSampling();
  for (nvml::Sample& sample : monitor_.TakeSamples()) pending_.push_back(std::move(sample));
  for (const nvml::Sample& sample : pending_) {
    if (sample.ticks <= end_ticks) Add(sample);
  }
  pending_.clear();
  uint64_t refused = unnamed_;
  for (const auto& [key, counters] : gpus_) {
    counters->builder->Flush();
    report_.events += counters->builder->appended_events();
    refused += counters->builder->refused_events();
    if (counters->hot > 0) {
      report_.warnings.push_back(absl::StrCat(counters->prefix,
                                              "had its clocks limited by heat in ", counters->hot,
                                              " of ", counters->samples, " samples"));
    }
  }
  if (refused > 0) report_.lost_by_cause[LossCause::kStoreFull] = refused;
  if (failed_ > 0) report_.lost_by_cause[LossCause::kNvmlFailed] = failed_;
  const nvml::GpuMonitor::SamplingCounts counts = monitor_.Counts();
  if (counts.forgotten > 0) {
    report_.warnings.push_back(
        absl::StrCat(counts.forgotten, " samples of GPUs arrived faster than they were written"));
  }
  if (counts.slowest > options_.monitor.every) {
    report_.warnings.push_back(absl::StrFormat(
        "NVML took up to %.0f ms for one sample of all GPUs; one is due every %.0f ms",
        absl::ToDoubleMilliseconds(counts.slowest),
        absl::ToDoubleMilliseconds(options_.monitor.every)));
  }
  CollectorReport judged = Judge();
  if (judged.state == CollectorState::kOff && report_.events == 0) {
    report_.state = CollectorState::kOff;
    report_.reason = judged.reason;
  } else if (judged.state != CollectorState::kOn) {
    report_.state = CollectorState::kDegraded;
    report_.reason = judged.reason;
  }
  if (!lost_gpus_.empty()) {
    const auto& [gpu, what] = *lost_gpus_.begin();
    report_.state = CollectorState::kDegraded;
    report_.reason = absl::StrCat(gpu, ": ", what);
  } else if (failed_ > 0) {
    report_.warnings.push_back(
        absl::StrCat(failed_, " values of GPUs could not be read; the last: ", failure_));
  }
  return absl::OkStatus();
}

CollectorReport NvmlCollector::Report() {
  if (started_) monitor_.StopSampling();
  started_ = on_ = false;
  gpus_.clear();
  return report_;
}

bool NvmlCollector::RefreshGpus(absl::Duration max_age, std::function<void()> done) {
  return !options_.off && monitor_.Refresh(max_age, std::move(done));
}

v1::Gpus NvmlCollector::Gpus() const {
  v1::Gpus gpus;
  const CollectorReport judged = Judge();
  if (judged.state != CollectorState::kOn) gpus.set_reason(judged.reason);
  const Snapshot snapshot = monitor_.Latest();
  gpus.set_driver_version(snapshot.driver_version);
  gpus.set_cuda_version(snapshot.cuda_version);
  gpus.set_chosen_by(snapshot.chosen_by);
  if (snapshot.state != Snapshot::kUnknown) {
    gpus.set_age_ms(static_cast<uint64_t>(
        std::max<int64_t>(0, absl::ToInt64Milliseconds(SteadyNow() - snapshot.at))));
  }
  for (const Snapshot::Entry& entry : snapshot.gpus) {
    v1::Gpu* const gpu = gpus.add_gpus();
    gpu->set_index(entry.gpu->index.value_or(0));
    gpu->set_has_index(entry.gpu->index.has_value());
    gpu->set_cuda_ordinal(entry.gpu->ordinal.value_or(0));
    gpu->set_has_cuda_ordinal(entry.gpu->ordinal.has_value());
    gpu->set_name(entry.gpu->name);
    gpu->set_uuid(entry.gpu->uuid);
    gpu->set_pci_bus_id(entry.gpu->pci_bus_id);
    gpu->set_compute_major(entry.gpu->compute_major);
    gpu->set_compute_minor(entry.gpu->compute_minor);
    const nvml::Reading& reading = entry.reading;
    gpu->set_memory_total_bytes(reading.memory_total_bytes.value_or(0));
    gpu->set_memory_used_bytes(reading.memory_used_bytes.value_or(0));
    gpu->set_has_utilization(reading.utilization_percent.has_value());
    gpu->set_utilization_percent(reading.utilization_percent.value_or(0));
    gpu->set_memory_utilization_percent(reading.memory_utilization_percent.value_or(0));
    gpu->set_power_milliwatts(reading.power_milliwatts.value_or(0));
    gpu->set_sm_clock_mhz(reading.sm_clock_mhz.value_or(0));
    gpu->set_memory_clock_mhz(reading.memory_clock_mhz.value_or(0));
    gpu->set_temperature_celsius(reading.temperature_celsius.value_or(0));
    if (!reading.failure.empty()) gpu->set_failure(reading.failure);
  }
  return gpus;
}

}  // namespace jobscope
