// SPDX-License-Identifier: Apache-2.0
#include "collectors/provider/provider_collector.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/clock/monotonic.h"
#include "jobscope/jobscope_c.h"

namespace jobscope {
namespace {

using provider::Instant;
using provider::InstantOf;
using provider::SessionEncoder;

// Interval between checks for new events.
constexpr absl::Duration kLookEvery = absl::Milliseconds(100);

// Time limit of Unregister for a running callback.
constexpr absl::Duration kCallbackTimeout = absl::Seconds(1);

constexpr size_t kReasonBytes = 1024;
// Event size in the first version of the header.
constexpr size_t kMinEventBytes = sizeof(jobscope_provider_event);
constexpr size_t kMaxEventBytes = 4096;

constexpr char kNotRegistered[] = "its provider has been unregistered";
constexpr char kUnregisteredMeanwhile[] = "its provider was unregistered during the capture";

}  // namespace

ProviderCollector::ProviderCollector(std::string_view name, int index)
    : name_(name),
      index_(index),
      sink_{},
      encoder_(std::make_unique<SessionEncoder>(name_, index_, nullptr, nullptr)) {
  sink_.abi.size = sizeof(sink_.abi);
  sink_.abi.add = &AddFromC;
  sink_.abi.add_xspace = &AddXSpaceFromC;
  sink_.owner = this;
}

ProviderCollector::~ProviderCollector() = default;

bool ProviderCollector::InForkedChild() const {
  const pid_t pid = pid_.load(std::memory_order_relaxed);
  return pid != 0 && pid != getpid();
}

absl::Status ProviderCollector::Register(const ProviderCallbacks& callbacks) {
  if (InForkedChild()) return absl::AbortedError("a forked child cannot have providers");
  const MutexLock lock(&mutex_);
  if (registered_) {
    return absl::AlreadyExistsError(
        absl::StrCat("a provider \"", name_, "\" is registered already: unregister it first"));
  }
  if (calling_) {
    return absl::AlreadyExistsError(absl::StrCat("a callback of the last provider \"", name_,
                                                 "\" has not returned yet: try again later"));
  }
  callbacks_ = callbacks;
  registered_ = true;
  return absl::OkStatus();
}

absl::Status ProviderCollector::Unregister() {
  if (InForkedChild()) return absl::OkStatus();
  const MutexLock lock(&mutex_);
  if (!registered_) {
    return absl::NotFoundError(absl::StrCat("no provider \"", name_, "\" is registered"));
  }
  const bool own_callback = calling_ && caller_ == std::this_thread::get_id();
  if (own_callback ||
      !called_.WaitFor(&mutex_, kCallbackTimeout, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return !calling_ || !registered_;
      })) {
    registered_ = false;
    session_.gone = true;
    session_.degraded_reason = kUnregisteredMeanwhile;
    return absl::UnavailableError(absl::StrCat(
        "a callback of the provider \"", name_,
        "\" has not returned: none further will be called, but its context must stay"));
  }
  if (!registered_) return absl::OkStatus();  // another call has done it
  if (session_.phase != Phase::kIdle) {
    CallStop(provider::InstantNow());
    session_.degraded_reason = kUnregisteredMeanwhile;
  }
  registered_ = false;
  callbacks_ = {};
  return absl::OkStatus();
}

CollectorReport ProviderCollector::Describe() const {
  CollectorReport report;
  if (!registered_) {
    report.state = CollectorState::kOff;
    report.reason = kNotRegistered;
  }
  return report;
}

bool ProviderCollector::BeginCall() {
  called_.Wait(&mutex_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !calling_; });
  if (!registered_ || session_.gone) return false;
  calling_ = true;
  caller_ = std::this_thread::get_id();
  return true;
}

absl::Status ProviderCollector::Call(jobscope_provider_callback callback, const char* verb) {
  // A copy: the arguments of a callback must not change while it runs.
  const jobscope_provider_session session = session_.abi;
  void* const context = callbacks_.context;
  char reason[kReasonBytes] = "";
  int code = 0;
  {
    // Runs even if the callback ends the thread: Python does that to threads that acquire the GIL
    // while it shuts down. The provider then leaves the session.
    struct Return {
      ProviderCollector* collector;
      bool returned = false;
      ~Return() ABSL_NO_THREAD_SAFETY_ANALYSIS {  // the lock is held again
        collector->calling_ = false;
        collector->called_.NotifyAll();
        if (!returned) collector->Leave();
      }
    } call{this};
    const MutexUnlock unlocked(&mutex_);
    if (callback != nullptr) code = callback(context, &session, reason, sizeof(reason));
    call.returned = true;
  }
  if (code == 0) return absl::OkStatus();
  reason[sizeof(reason) - 1] = '\0';
  if (reason[0] != '\0') return absl::InternalError(reason);
  return absl::InternalError(
      absl::StrCat("its provider's ", verb, " failed with code ", code, " and no reason"));
}

void ProviderCollector::Leave() {
  session_.phase = Phase::kIdle;
  session_.intake.Close();
}

absl::Status ProviderCollector::Arm(const ArmRequest& request) {
  const MutexLock lock(&mutex_);
  pid_.store(getpid(), std::memory_order_relaxed);
  session_ = {};
  lost_so_far_ = 0;
  account_unknown_ = false;
  session_.abi.size = sizeof(session_.abi);
  session_.abi.sink = &sink_.abi;
  session_.abi.host_tracer_level = request.recording.host_tracer_level;
  session_.abi.device_tracer_level = request.recording.device_tracer_level;
  session_.abi.python_tracer_level = request.recording.python_tracer_level;
  {
    const MutexLock writing(&writing_);
    encoder_ = std::make_unique<SessionEncoder>(name_, index_, request.sink, request.names);
  }
  session_.takes_part = request.recording.frameworks.Takes(name_);
  if (!session_.takes_part) {
    session_.off_reason = absl::StrCat("the capture was asked for with frameworks ",
                                       request.recording.frameworks.text());
    return absl::OkStatus();
  }
  if (!BeginCall()) {
    session_.takes_part = false;
    session_.off_reason = kNotRegistered;
    return absl::OkStatus();
  }
  const absl::Status status = Call(callbacks_.arm, "arm");
  if (status.ok() && !session_.gone) session_.phase = Phase::kArmed;
  return status;
}

absl::Status ProviderCollector::Start(const StartRequest& request) {
  const MutexLock lock(&mutex_);
  if (session_.phase != Phase::kArmed || !BeginCall()) return absl::OkStatus();
  const Instant begin = InstantOf(request.map, request.start_ticks);
  session_.abi.begin_monotonic_ns = begin.monotonic_ns;
  session_.abi.begin_realtime_ns = begin.realtime_ns;
  if (request.end_ticks != UINT64_MAX) {
    const Instant end = InstantOf(request.map, request.end_ticks);
    session_.abi.end_monotonic_ns = end.monotonic_ns;
    session_.abi.end_realtime_ns = end.realtime_ns;
  }
  {
    const MutexLock writing(&writing_);
    encoder_->Begin(request, callbacks_.realtime, uses_tsc_);
  }
  session_.intake.Open();
  session_.phase = Phase::kRecording;
  absl::Status status = Call(callbacks_.start, "start");
  if (status.ok()) return status;
  // There will be no Stop. The events so far stay.
  const MutexLock writing(&writing_);
  Hold();
  Leave();
  encoder_->EndAt(provider::InstantNow());
  encoder_->Finish();
  return status;
}

int ProviderCollector::AddFromC(jobscope_provider_sink* sink, const jobscope_provider_event* events,
                                size_t count) {
  if (sink == nullptr || (events == nullptr && count > 0)) return JOBSCOPE_E_INVALID;
  if (count == 0) return JOBSCOPE_OK;
  if (events->size < kMinEventBytes || events->size > kMaxEventBytes) return JOBSCOPE_E_INVALID;
  // No exception may reach a foreign caller's frames; only exhausted memory can cause one.
  ProviderCollector* const owner = reinterpret_cast<Sink*>(sink)->owner;
  try {
    return owner->Add(events, count);
  } catch (...) {
    owner->account_unknown_ = true;
    return JOBSCOPE_E_INTERNAL;
  }
}

int ProviderCollector::Add(const jobscope_provider_event* events, size_t count) {
  if (InForkedChild()) return JOBSCOPE_E_STATE;
  const size_t stride = events->size;
  const char* at = reinterpret_cast<const char*>(events);
  const MutexLock lock(&mutex_);
  if (!session_.intake.open()) return JOBSCOPE_E_STATE;
  for (size_t i = 0; i < count; ++i, at += stride) {
    jobscope_provider_event event;
    std::memcpy(&event, at, sizeof(event));
    if (session_.intake.full() && session_.phase == Phase::kStopping) {
      // The window's end is known and nobody else processes the events: encode them here.
      const MutexLock writing(&writing_);
      Hold();
      encoder_->EncodeAll();
    }
    if (!session_.intake.Add(event)) lost_so_far_.fetch_add(1, std::memory_order_relaxed);
  }
  return JOBSCOPE_OK;
}

int ProviderCollector::AddXSpaceFromC(jobscope_provider_sink* sink, const void* bytes, size_t size,
                                      char* error, size_t error_size) {
  const auto answer = [&](int code, std::string_view text) {
    if (error != nullptr && error_size > 0) {
      const size_t count = std::min(text.size(), error_size - 1);
      std::memcpy(error, text.data(), count);
      error[count] = '\0';
    }
    return code;
  };
  if (sink == nullptr || (bytes == nullptr && size > 0)) {
    return answer(JOBSCOPE_E_INVALID, "there are no bytes, or no sink");
  }
  ProviderCollector* const owner = reinterpret_cast<Sink*>(sink)->owner;
  try {
    const absl::Status status = owner->AddXSpace({static_cast<const char*>(bytes), size});
    if (status.ok()) return answer(JOBSCOPE_OK, "");
    return answer(absl::IsFailedPrecondition(status) ? JOBSCOPE_E_STATE : JOBSCOPE_E_INVALID,
                  std::string(status.message()));
  } catch (...) {
    owner->account_unknown_ = true;
    return answer(JOBSCOPE_E_INTERNAL, "out of memory");
  }
}

absl::Status ProviderCollector::AddXSpace(std::string_view bytes) {
  if (InForkedChild()) return absl::FailedPreconditionError("this is a forked child");
  MutexLock lock(&mutex_);
  if (session_.phase != Phase::kStopping || !session_.intake.open()) {
    return absl::FailedPreconditionError("an XSpace can be added only inside of stop()");
  }
  const MutexLock writing(&writing_);
  lock.Release();  // merging takes time proportional to the XSpace's size
  return encoder_->AddXSpace(bytes);
}

void ProviderCollector::Hold() { encoder_->Hold(session_.intake.Take(), SteadyNow()); }

absl::Duration ProviderCollector::Drain() {
  MutexLock lock(&mutex_);
  if (session_.phase != Phase::kRecording) return absl::InfiniteDuration();
  const MutexLock writing(&writing_);
  // Losses then occur in the buffer, where they are counted.
  if (encoder_->Full()) return kLookEvery;
  Hold();
  lock.Release();
  encoder_->EncodeOld(SteadyNow());
  return kLookEvery;
}

void ProviderCollector::CallStop(const Instant& end) {
  session_.abi.end_monotonic_ns = end.monotonic_ns;
  session_.abi.end_realtime_ns = end.realtime_ns;
  {
    const MutexLock writing(&writing_);
    encoder_->EndAt(end);
  }
  if (BeginCall()) {
    session_.phase = Phase::kStopping;
    if (absl::Status status = Call(callbacks_.stop, "stop"); !status.ok()) {
      session_.degraded_reason = std::string(status.message());
    }
  }
  session_.phase = Phase::kIdle;
  const MutexLock writing(&writing_);
  Hold();
  session_.intake.Close();
}

absl::Status ProviderCollector::Stop(uint64_t end_ticks) {
  MutexLock lock(&mutex_);
  called_.Wait(&mutex_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !calling_; });
  TickMap map;
  {
    const MutexLock writing(&writing_);
    map = encoder_->map();
  }
  if (session_.phase == Phase::kArmed) {  // without a start there is no window
    CallStop({});
  } else if (session_.phase == Phase::kRecording) {
    CallStop(InstantOf(map, end_ticks));
  }
  lock.Release();
  const MutexLock writing(&writing_);
  if (encoder_->begun()) encoder_->Finish();
  return absl::OkStatus();
}

CollectorReport ProviderCollector::Report() {
  CollectorReport report;
  const MutexLock lock(&mutex_);
  const MutexLock writing(&writing_);
  session_.intake.Close();
  if (!session_.takes_part) {
    report.state = CollectorState::kOff;
    report.reason = session_.off_reason;
    return report;
  }
  if (!session_.degraded_reason.empty()) {
    report.state = CollectorState::kDegraded;
    report.reason = session_.degraded_reason;
  }
  const provider::Intake& intake = session_.intake;
  report.attempted = intake.attempted();
  if (intake.buffer_full() > 0) report.lost_by_cause[LossCause::kBufferFull] = intake.buffer_full();
  if (intake.malformed() > 0) report.lost_by_cause[LossCause::kMalformed] = intake.malformed();
  report.account_unknown = account_unknown_;
  encoder_->AddTo(&report);
  encoder_->Discard();
  lost_so_far_ = 0;
  return report;
}

}  // namespace jobscope
