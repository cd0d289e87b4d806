// SPDX-License-Identifier: Apache-2.0
#include "server/process/worker_runtime.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "collectors/cuda/cuda_collector.h"
#include "collectors/cuda/libraries/driver_api.h"
#include "collectors/framework/framework_collectors.h"
#include "collectors/framework/gpu_tracer.h"
#include "collectors/framework/step_watch.h"
#include "collectors/host/host_collector.h"
#include "collectors/host/host_report.h"
#include "collectors/inferred/inferred_steps.h"
#include "collectors/nvml/nvml_collector.h"
#include "collectors/provider/provider_registry.h"
#include "collectors/python/gc/gc_collector.h"
#include "collectors/python/python_collector.h"
#include "collectors/system/system_collector.h"
#include "collectors/torch/torch_collector.h"
#include "common/clock/monotonic.h"
#include "common/log/log.h"
#include "common/threads/worker_thread.h"
#include "server/guard/fork_guard.h"
#include "server/process/exit_delivery.h"
#include "server/process/recorder_loader.h"

namespace jobscope {
namespace {

constexpr uint64_t kDefaultRingsCapBytes = uint64_t{64} << 20;
// Memory of the recorder per thread, in addition to the records.
constexpr uint64_t kRingPageBytes = 4096;
// How many steps the recorder keeps.
constexpr size_t kMaxSteps = 256;

const host::Reader* FindRecorder() {
  const auto reader = LoadRecorder();
  if (reader.ok()) return *reader;
  Log(LogLevel::kWarning,
      absl::StrCat("host events are not recorded: ", reader.status().message()));
  return nullptr;
}

// Returns the newest steps, to which GPU work is assigned.
std::vector<cuda::StepSpan> RecentSteps(const host::Reader* reader) {
  std::array<jobscope_step_info, kMaxSteps> steps;
  const size_t count = reader->recent_steps(steps.data(), steps.size());
  std::vector<cuda::StepSpan> spans;
  for (size_t i = 0; i < count; ++i) {
    spans.push_back({steps[i].number, steps[i].begin_ticks, steps[i].end_ticks});
  }
  return spans;
}

std::string WhoElseTracesGpus(const ArmRequest& request) {
  return framework::WhyFrameworkTraces(request.recording.device_tracer,
                                       request.recording.frameworks,
                                       framework::FindGpuFrameworks());
}

CudaCollector* MakeCudaCollector(const host::Reader* reader, bool uses_tsc) {
  CudaCollectorOptions options = CudaCollectorOptions::FromEnvironment();
  if (reader != nullptr) options.steps = [reader] { return RecentSteps(reader); };
  options.other_tracer = &WhoElseTracesGpus;
  options.precede_exit_handlers = &DeliverBeforeOthersExit;
  return new CudaCollector(uses_tsc, std::move(options));
}

NvmlCollector* MakeNvmlCollector(bool uses_tsc) {
  NvmlCollectorOptions options = NvmlCollectorOptions::FromEnvironment();
  options.monitor.cuda_devices = &cuda::QueryDeviceUuids;
  return new NvmlCollector(uses_tsc, std::move(options));
}

// Runs work that may wait for the GIL.
void RunAside(std::function<void()> body) {
  auto status = StartWorkerThread("jobscope-aside", std::move(body));
  if (!status.ok()) Log(LogLevel::kWarning, std::string(status.message()));
}

// Returns null if there is no recorder.
const WriterTable* FindWriter(const host::Reader* reader) {
  if (reader == nullptr) return nullptr;
  const auto found = LoadWriter();
  return found.ok() ? *found : nullptr;
}

TorchCollector* MakeTorchCollector(const WriterTable* writer) {
  framework::RecordInferredSteps(writer);
  return new TorchCollector(writer, &RunAside);
}

FrameworkEnvironment MakeFrameworkEnvironment(const host::Reader* reader, bool uses_tsc,
                                              const Collector* cuda) {
  FrameworkEnvironment environment;
  environment.uses_tsc = uses_tsc;
  if (reader != nullptr) {
    environment.has_steps = [reader](uint64_t from_ticks, uint64_t to_ticks) {
      return host::HasStepsBetween(*reader, from_ticks, to_ticks);
    };
  }
  environment.traces_gpus = [cuda](const ArmRequest& request) {
    return WhoElseTracesGpus(request).empty() && cuda->Describe().state == CollectorState::kOn;
  };
  return environment;
}

absl::Duration Between(const TickMap& map, uint64_t from_ticks, uint64_t to_ticks) {
  return absl::Nanoseconds((map.ToPs(to_ticks) - map.ToPs(from_ticks)) / 1000);
}

}  // namespace

WorkerRuntime& WorkerRuntime::Get() {
  static auto* const worker = new WorkerRuntime;
  return *worker;
}

bool WorkerRuntime::Create(absl::Time deadline) {
  enum Progress { kNone, kBegun, kCreated };
  static std::atomic<Progress> progress{kNone};
  Progress before = kNone;
  if (progress.compare_exchange_strong(before, kBegun)) {
    absl::Cleanup out_of_memory = [] { progress = kNone; };
    Get();
    std::move(out_of_memory).Cancel();
    progress = kCreated;
  }
  while (progress != kCreated) {
    if (SteadyNow() >= deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

WorkerRuntime::WorkerRuntime()
    : reader_(FindRecorder()),
      uses_tsc_(reader_ != nullptr && reader_->uses_tsc != 0),
      clock_(std::make_shared<ClockBaseline>(uses_tsc_)),
      host_(new HostCollector(reader_)),
      nvml_(MakeNvmlCollector(uses_tsc_)) {
  // Debian's abseil looks for lock cycles each time it takes a lock, an eighth of gRPC's cost
  // (measured with perf), and ends the process if it finds one. Neither is acceptable in a job.
  // Tests of the layers below this class keep the check.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // A forked child has none of the threads that sessions need, with or without a server.
  InstallForkGuard();
  CudaCollector* const cuda = MakeCudaCollector(reader_, uses_tsc_);
  const FrameworkEnvironment environment = MakeFrameworkEnvironment(reader_, uses_tsc_, cuda);
  const WriterTable* const writer = FindWriter(reader_);
  SessionManager::Dependencies dependencies;
  dependencies.collectors = {host_,
                             new SystemCollector(uses_tsc_),
                             new PythonCollector(uses_tsc_),
                             new GcCollector(writer),
                             cuda,
                             nvml_,
                             MakeTorchCollector(writer),
                             MakeJaxCollector(environment).release(),
                             MakeTensorflowCollector(environment).release()};
  dependencies.uses_tsc = uses_tsc_;
  dependencies.clock = clock_;
  dependencies.identity = [this] { return identity(); };
  sessions_ = std::make_shared<SessionManager>(std::move(dependencies));
  if (reader_ != nullptr) {
    RunAside([reader = reader_] {
      // The first call takes long (collectors/host/recorder/process.cc), so it is made here and not
      // at the end of a capture.
      reader->quiesce();
      framework::WatchSteps();
    });
  }
  ProviderRegistry::Get().SetListener(
      [sessions = sessions_, uses_tsc = uses_tsc_](ProviderCollector* provider) {
        provider->set_uses_tsc(uses_tsc);
        if (!sessions->AddCollector(provider)) {
          Log(LogLevel::kError, absl::StrCat("the provider \"", std::string(provider->name()),
                                             "\" has the name of a collector and takes no part"));
        }
      });
}

absl::Status WorkerRuntime::ConfigureRings(uint32_t ring_records, uint64_t cap_bytes) {
  if (reader_ == nullptr || (ring_records == 0 && cap_bytes == 0)) return absl::OkStatus();
  const uint32_t records = ring_records != 0 ? ring_records : reader_->ring_records;
  const uint64_t bytes = cap_bytes != 0 ? cap_bytes : kDefaultRingsCapBytes;
  // A cap smaller than one ring would be accepted, and no thread would ever get a ring.
  const bool holds_one = bytes >= kRingPageBytes + records * sizeof(jobscope_record);
  if (holds_one && reader_->configure(records, bytes) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("ring_records = ", records, ", rings_cap_bytes = ", bytes,
                   " are out of range: records must be a power of two, 1024 to 4194304 (32 bytes "
                   "each), and the cap must hold at least one ring and its page of 4096 bytes"));
}

void WorkerRuntime::SetAlwaysOn(bool on) { host_->SetAlwaysOn(on); }

void WorkerRuntime::SetContinuous(std::optional<int> host_level) {
  host_->SetContinuous(host_level);
}

GpuSource WorkerRuntime::Gpus() const {
  NvmlCollector* const nvml = nvml_;
  GpuSource source;
  source.latest = [nvml] { return nvml->Gpus(); };
  source.refresh = [nvml](absl::Duration max_age, std::function<void()> done) {
    return nvml->RefreshGpus(max_age, std::move(done));
  };
  return source;
}

StepHistory WorkerRuntime::Steps() const {
  StepHistory history;
  if (reader_ == nullptr) return history;
  history.count = reader_->step_count();
  if (history.count == 0) return history;
  history.last_fall = reader_->last_step_fall();
  history.inferred_from = host::StepsInferredFrom(*reader_);
  std::array<jobscope_step_info, kMaxSteps> steps;
  const size_t count = reader_->recent_steps(steps.data(), steps.size());
  const ClockSample now = SampleClocks(uses_tsc_);
  const bool timed = clock_->AgeNs(now.monotonic_ns) >= kMinBaselineNs;
  const TickMap map = timed ? TickMap::FromSamples(clock_->early(), now) : TickMap();
  for (size_t i = 0; i < count; ++i) {
    const jobscope_step_info& step = steps[i];
    StepTiming timing;
    timing.number = step.number;
    if (step.end_ticks == 0) {
      if (timed) timing.length = Between(map, step.begin_ticks, now.ticks);
      history.current = timing;
    } else if (timed) {
      timing.length = Between(map, step.begin_ticks, step.end_ticks);
      timing.ended = Between(map, step.end_ticks, now.ticks);
      history.recent.push_back(timing);
    }
  }
  return history;
}

}  // namespace jobscope
