// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/cuda_collector.h"

#include <cstdlib>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "collectors/cuda/discarded_records.h"
#include "collectors/cuda/libraries/driver_api.h"
#include "collectors/cuda/libraries/loader.h"
#include "collectors/cuda/tracing/buffer_pool.h"
#include "collectors/cuda/tracing/state_log.h"

namespace jobscope {
namespace {

// Buffers mapped before the first record: enough for a few threads. Each further one costs page
// faults once, on the thread that fills it.
constexpr size_t kReadyBuffers = 16;
constexpr absl::Duration kLoadLimit = absl::Seconds(3);
// Time limit for calls that an earlier session left running.
constexpr absl::Duration kEarlierCallLimit = absl::Milliseconds(100);

}  // namespace

CudaCollector::CudaCollector(bool uses_tsc, CudaCollectorOptions options)
    : uses_tsc_(uses_tsc), options_(std::move(options)) {}

CudaCollector::~CudaCollector() = default;

CollectorReport CudaCollector::Describe() const {
  CollectorReport report;
  {
    const MutexLock lock(&mutex_);
    if (!last_failure_.empty()) {
      report.state = CollectorState::kFailed;
      report.reason = last_failure_;
      return report;
    }
  }
  // Queries the driver only if it is in use already: a query acquires the loader's lock.
  if (!cuda::DriverIsKnownLoaded()) {
    report.state = CollectorState::kOff;
    report.reason = cuda::DriverReason(cuda::StateWithoutDriver());
    report.absent = true;
  }
  return report;
}

std::string CudaCollector::WhyOff(const ArmRequest& request) const {
  if (request.recording.device_tracer_level <= 0) return "device_tracer_level is 0";
  return cuda::DriverIsLoaded() ? "" : cuda::DriverReason(cuda::StateWithoutDriver());
}

absl::Status CudaCollector::Fail(std::string reason) {
  report_.state = CollectorState::kFailed;
  report_.reason = reason;
  const MutexLock lock(&mutex_);
  last_failure_ = reason;
  return absl::FailedPreconditionError(reason);
}

void CudaCollector::Off(std::string reason) {
  report_.state = CollectorState::kOff;
  report_.reason = std::move(reason);
  const MutexLock lock(&mutex_);
  last_failure_.clear();
}

// Exit handlers run last in, first out: those of CUPTI and of the driver come after these.
void CudaCollector::PrecedeExitHandlers() const {
  if (!options_.precede_exit_handlers) return;
  (void)std::atexit([] { cuda::StateLog::Get().NoteEnd(); });
  options_.precede_exit_handlers();
  (void)std::atexit([] { cuda::StateLog::Get().NoteExit(); });
}

cuda::CudaSessionOptions CudaCollector::SessionOptionsWith(const cuda::CuptiApi* api,
                                                           int driver_version) const {
  cuda::CudaSessionOptions options;
  options.api = api;
  options.uses_tsc = uses_tsc_;
  options.tracing.unified_memory = options_.unified_memory;
  options.tracing.driver_version = driver_version;
  options.tracing.device_buffer_bytes = options_.device_buffer_bytes;
  options.tracing.discard_kept = [api] { cuda::DiscardKept(api); };
  options.limits = options_.limits;
  options.steps = options_.steps;
  options.calls = calls_;
  options.finalize = options_.finalize;
  options.graphs_seen = graphs_seen_;
  return options;
}

absl::Status CudaCollector::Arm(const ArmRequest& request) {
  report_ = {};
  session_.reset();
  lost_so_far_ = 0;
  if (std::string why = WhyOff(request); !why.empty()) {
    Off(std::move(why));
    return absl::OkStatus();
  }
  const cuda::DriverState driver = cuda::QueryDriver();
  if (driver.use == cuda::DriverState::kFailed) return Fail(cuda::DriverReason(driver));
  if (driver.use != cuda::DriverState::kInUse) {
    Off(cuda::DriverReason(driver));
    return absl::OkStatus();
  }
  if (options_.other_tracer) {
    if (std::string reason = options_.other_tracer(request); !reason.empty()) {
      Off(std::move(reason));
      return absl::OkStatus();
    }
  }
  if (calls_ == nullptr) calls_ = std::make_shared<DetachedCaller>("jobscope-cupti");
  if (!calls_->Wait(kEarlierCallLimit)) {
    return Fail(absl::StrCat("a call of an earlier capture still hangs: ", calls_->running()));
  }
  // The loader runs other libraries' initialisers, so this runs under the watchdog, too.
  cuda::LoadOptions load;
  load.library = options_.cupti_library;
  load.driver_version = driver.driver_version;
  const auto loaded = std::make_shared<absl::StatusOr<const cuda::CuptiApi*>>(
      absl::UnknownError("libcupti was not loaded"));
  if (!calls_->Run("loading libcupti", kLoadLimit,
                   [loaded, load] { *loaded = cuda::LoadCupti(load); })) {
    return Fail("loading libcupti has not returned; this capture has no GPU part");
  }
  if (!loaded->ok()) return Fail(std::string(loaded->status().message()));
  const cuda::CuptiApi* const api = **loaded;
  const bool is_first_use = std::exchange(used_api_, api) != api;
  if (is_first_use) PrecedeExitHandlers();

  std::string error;
  if (!cuda::BufferPool::Get().Prepare(options_.buffer_bytes / cuda::BufferPool::kBufferBytes,
                                       kReadyBuffers, api->version >= cuda::kCupti12_9, &error)) {
    return Fail(absl::StrCat("no memory for trace buffers: ", error));
  }
  auto session =
      std::make_unique<cuda::CudaSession>(request, SessionOptionsWith(api, driver.driver_version));
  const absl::Status status = session->Arm();
  // Again: a library's first calls may create objects that are destroyed at exit.
  if (is_first_use) PrecedeExitHandlers();
  if (!status.ok()) return Fail(std::string(status.message()));
  {
    const MutexLock lock(&mutex_);
    last_failure_.clear();
  }
  session_ = std::move(session);
  return absl::OkStatus();
}

absl::Status CudaCollector::Start(const StartRequest& request) {
  return session_ == nullptr ? absl::OkStatus() : session_->Start(request);
}

absl::Duration CudaCollector::Drain() {
  if (session_ == nullptr) return absl::InfiniteDuration();
  const absl::Duration next = session_->Drain();
  lost_so_far_.store(session_->LostSoFar(), std::memory_order_relaxed);
  return next;
}

absl::Status CudaCollector::Stop(uint64_t end_ticks) {
  return session_ == nullptr ? absl::OkStatus() : session_->Stop(end_ticks);
}

CollectorReport CudaCollector::Report() {
  if (session_ != nullptr) {
    report_ = session_->Report();
    graphs_seen_ = graphs_seen_ || session_->graphs_seen();
    session_.reset();
    cuda::BufferPool::Get().ReleaseMemory();
    // Ends the thread unless a call hangs; the next session then sees that.
    if (!calls_->busy()) calls_.reset();
  }
  return report_;
}

}  // namespace jobscope
