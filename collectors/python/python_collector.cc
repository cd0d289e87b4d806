// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/python_collector.h"

#include <exception>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "collectors/python/bridge/api.h"
#include "collectors/python/bridge/gil.h"
#include "collectors/python/bridge/gil_holds.h"
#include "collectors/python/calls/call_tracer.h"
#include "collectors/python/stacks/sampler.h"
#include "collectors/python/stacks/trace_api.h"
#include "common/clock/monotonic.h"
#include "common/log/log.h"
#include "common/threads/detached_caller.h"

namespace jobscope {
namespace {

// Time limits, within the session's deadlines of 5 s, 1 s and 2 s.
constexpr absl::Duration kArmTimeout = absl::Seconds(3);
constexpr absl::Duration kStartTimeout = absl::Milliseconds(500);
constexpr absl::Duration kStopTimeout = absl::Seconds(1);
// Time limit for calls that an earlier session left to the helper.
constexpr absl::Duration kEarlierTimeout = absl::Seconds(1);
// The ring of calls then holds 50 times what a program with 100,000 recorded calls/s writes.
constexpr absl::Duration kDrainEvery = absl::Milliseconds(20);

constexpr char kLockHeld[] =
    "could not acquire the GIL: an extension holds it for seconds at a time";

}  // namespace

PythonCollector::PythonCollector(bool uses_tsc) : uses_tsc_(uses_tsc) {}
PythonCollector::~PythonCollector() = default;

// Does not search for Python: that would acquire the loader's lock.
CollectorReport PythonCollector::Describe() const { return {}; }

std::string PythonCollector::WhyOff(const ArmRequest& request) const {
  return request.recording.python_tracer_level > 0 ? "" : "python_tracer_level is 0";
}

absl::Status PythonCollector::Fail(absl::Status status) {
  report_.state = CollectorState::kFailed;
  report_.reason = std::string(status.message());
  sampler_.reset();
  tracer_.reset();
  return status;
}

std::function<absl::Status()> PythonCollector::MakeTracing(const python::Api& api,
                                                           const python::TraceApi& trace,
                                                           python::TracerOptions options) {
  if (request_.recording.python_tracer_level == 1) {
    python::Sampler::Setup setup;
    setup.api = &api;
    setup.trace = &trace;
    setup.sink = request_.sink;
    setup.names = request_.names;
    setup.uses_tsc = uses_tsc_;
    setup.hz = options.sample_hz;
    sampler_ = std::make_shared<python::Sampler>(setup);
    return [sampler = sampler_] { return sampler->Prepare(); };
  }
  python::CallTracer::Setup setup;
  setup.api = &api;
  setup.trace = &trace;
  setup.sink = request_.sink;
  setup.names = request_.names;
  setup.uses_tsc = uses_tsc_;
  setup.options = std::move(options);
  tracer_ = std::make_shared<python::CallTracer>(std::move(setup));
  return [tracer = tracer_] { return tracer->Prepare(); };
}

absl::Status PythonCollector::Arm(const ArmRequest& request) {
  request_ = request;
  report_ = {};
  lost_so_far_.store(0, std::memory_order_relaxed);
  sampler_.reset();
  tracer_.reset();
  if (std::string why = WhyOff(request); !why.empty()) {
    report_.state = CollectorState::kOff;
    report_.reason = std::move(why);
    return absl::OkStatus();
  }
  const absl::StatusOr<const python::Api*> api = python::FindApi();
  const absl::Status alive = api.ok() ? python::CheckAlive(**api) : api.status();
  if (absl::IsNotFound(alive)) {
    report_.state = CollectorState::kOff;
    report_.reason = std::string(alive.message());
    return absl::OkStatus();
  }
  if (!alive.ok()) return Fail(alive);
  const absl::StatusOr<const python::TraceApi*> trace = python::FindTraceApi(**api);
  if (!trace.ok()) return Fail(trace.status());

  if (helper_ == nullptr) helper_ = std::make_shared<DetachedCaller>("jobscope-python");
  if (!helper_->Wait(kEarlierTimeout)) {
    return Fail(absl::UnavailableError(
        absl::StrCat("since an earlier capture ", kLockHeld, "; this one is without Python")));
  }
  python::TracerOptions options = python::TracerOptions::FromEnvironment();
  report_.warnings = options.faults;

  struct Prepared {
    absl::Status status;
    bool sub_interpreters = false;
  };
  const auto prepared = std::make_shared<Prepared>();
  const std::function<absl::Status()> prepare = MakeTracing(**api, **trace, std::move(options));
  const auto count = [prepared, api = *api, trace = *trace] {
    (void)python::WithGil(*api, python::GilUse::kArm,
                          [&] { prepared->sub_interpreters = HasSubInterpreters(*trace); });
  };
  if (!helper_->Run("arming", kArmTimeout, [prepare, count, prepared] {
        try {
          prepared->status = prepare();
          count();
        } catch (const std::exception&) {
          prepared->status = python::OutOfMemoryInPython();
        }
      })) {
    return Fail(absl::UnavailableError(kLockHeld));
  }
  if (!prepared->status.ok()) return Fail(prepared->status);
  if (prepared->sub_interpreters) {
    report_.warnings.emplace_back(
        "there are sub-interpreters: they are not traced, only Python's main interpreter is");
  }
  if (sampler_ != nullptr) helper_->Post("sampling", [sampler = sampler_] { sampler->Run(); });
  return absl::OkStatus();
}

absl::Status PythonCollector::Start(const StartRequest& request) {
  python::TraceWindow window;
  window.start_ticks = request.start_ticks;
  window.end_ticks = request.end_ticks;
  window.map = request.map;
  if (sampler_ != nullptr) sampler_->Begin(window);
  if (tracer_ != nullptr) {
    tracer_->Begin(window);
    const python::CallSession::Limits limits = tracer_->LimitsFor(request.map);
    helper_->Run("installing hooks", kStartTimeout,
                 [tracer = tracer_, limits] { tracer->Install(limits); });
    if (tracer_->installed() && !tracer_->install_status().ok()) {
      return Fail(tracer_->install_status());
    }
  }
  return absl::OkStatus();
}

absl::Duration PythonCollector::Drain() {
  if (tracer_ == nullptr) return absl::InfiniteDuration();
  tracer_->Drain();
  lost_so_far_.store(tracer_->LostSoFar(), std::memory_order_relaxed);
  return kDrainEvery;
}

absl::Status PythonCollector::Stop(uint64_t end_ticks) {
  if (sampler_ != nullptr && !sampler_->End(end_ticks, kStopTimeout)) {
    report_.state = CollectorState::kDegraded;
    report_.reason = absl::StrCat("at the end of the capture ", kLockHeld);
  }
  if (tracer_ != nullptr) {
    const absl::Time deadline = SteadyNow() + kStopTimeout;
    // The hooks may still be in the process of being installed.
    const bool removed =
        helper_->Wait(kStopTimeout) && helper_->Run("removing hooks", deadline - SteadyNow(),
                                                    [tracer = tracer_] { tracer->Remove(); });
    tracer_->End(end_ticks);
    if (!removed) {
      report_.state = CollectorState::kDegraded;
      report_.reason = absl::StrCat("at the end of the capture ", kLockHeld,
                                    "; calls that were open then are missing");
    }
  }
  return absl::OkStatus();
}

CollectorReport PythonCollector::Report() {
  if (sampler_ != nullptr) sampler_->FillReport(&report_);
  if (tracer_ != nullptr) tracer_->FillReport(&report_);
  sampler_.reset();
  tracer_.reset();
  // Ends the thread unless it waits for Python; the next session then sees that.
  if (helper_ != nullptr && helper_->Wait(absl::ZeroDuration())) helper_.reset();
  if (const std::string holds = python::LongestGilHolds(); !holds.empty()) {
    Log(LogLevel::kDebug, absl::StrCat("the GIL was held longest for ", holds));
  }
  return report_;
}

}  // namespace jobscope
