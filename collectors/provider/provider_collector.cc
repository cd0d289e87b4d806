// SPDX-License-Identifier: Apache-2.0
#include "collectors/provider/provider_collector.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectors/xspace_import/foreign_xspace.h"
#include "common/xspace/segment/trace_planes.h"
#include "jobscope/jobscope_c.h"

namespace jobscope {
namespace {

using std::chrono::milliseconds;

// Interval between checks for new events, and how long events are held. A session's end reaches its
// collectors within milliseconds, unless the machine is starved; events that began after the end
// and arrived within that time are detected.
constexpr absl::Duration kLookEvery = absl::Milliseconds(100);
constexpr auto kHoldFor = milliseconds(200);

// Time limit of Unregister for a running callback.
constexpr absl::Duration kCallbackTimeout = absl::Seconds(1);

constexpr size_t kReasonBytes = 1024;
// Event size in the first version of the header.
constexpr size_t kMinEventBytes = sizeof(jobscope_provider_event);
constexpr size_t kMaxEventBytes = 4096;

constexpr char kNotRegistered[] = "its provider has been unregistered";
constexpr char kUnregisteredMeanwhile[] = "its provider was unregistered during the capture";

int64_t Signed(uint64_t value) {
  return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX));
}

}  // namespace

ProviderCollector::ProviderCollector(std::string_view name, int index)
    : name_(name), index_(index), sink_{}, session_{} {
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
    gone_ = true;
    degraded_reason_ = kUnregisteredMeanwhile;
    return absl::UnavailableError(absl::StrCat(
        "a callback of the provider \"", name_,
        "\" has not returned: none further will be called, but its context must stay"));
  }
  if (!registered_) return absl::OkStatus();  // another call has done it
  if (phase_ != Phase::kIdle) {
    const ClockSample now = SampleClocks(/*uses_tsc=*/false, /*tries=*/1);
    CallStop(Signed(now.monotonic_ns), Signed(now.realtime_ns));
    degraded_reason_ = kUnregisteredMeanwhile;
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
  if (!registered_ || gone_) return false;
  calling_ = true;
  caller_ = std::this_thread::get_id();
  return true;
}

absl::Status ProviderCollector::Call(jobscope_provider_callback callback, const char* verb) {
  // A copy: the arguments of a callback must not change while it runs.
  const jobscope_provider_session session = session_;
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
  phase_ = Phase::kIdle;
  incoming_.reset();
}

absl::Status ProviderCollector::Arm(const ArmRequest& request) {
  const MutexLock lock(&mutex_);
  pid_.store(getpid(), std::memory_order_relaxed);
  phase_ = Phase::kIdle;
  incoming_.reset();
  off_reason_.clear();
  degraded_reason_.clear();
  gone_ = false;
  attempted_ = malformed_ = buffer_full_ = 0;
  lost_so_far_ = 0;
  account_unknown_ = false;
  session_ = {};
  session_.size = sizeof(session_);
  session_.sink = &sink_.abi;
  session_.host_tracer_level = request.recording.host_tracer_level;
  session_.device_tracer_level = request.recording.device_tracer_level;
  session_.python_tracer_level = request.recording.python_tracer_level;
  {
    const MutexLock writing(&writing_);
    request_ = request;
    held_.clear();
    writer_.reset();
    xspaces_.reset();
    account_ = {};
    end_ns_ = INT64_MAX;
  }
  takes_part_ = request.recording.frameworks.Takes(name_);
  if (!takes_part_) {
    off_reason_ = absl::StrCat("the capture was asked for with frameworks ",
                               request.recording.frameworks.text());
    return absl::OkStatus();
  }
  if (!BeginCall()) {
    takes_part_ = false;
    off_reason_ = kNotRegistered;
    return absl::OkStatus();
  }
  const absl::Status status = Call(callbacks_.arm, "arm");
  if (status.ok() && !gone_) phase_ = Phase::kArmed;
  return status;
}

absl::Status ProviderCollector::Start(const StartRequest& request) {
  const MutexLock lock(&mutex_);
  if (phase_ != Phase::kArmed || !BeginCall()) return absl::OkStatus();
  session_.begin_monotonic_ns = Signed(request.map.ToMonotonicNs(request.start_ticks));
  session_.begin_realtime_ns = request.map.ToUnixNs(request.start_ticks);
  if (request.end_ticks != UINT64_MAX) {
    session_.end_monotonic_ns = Signed(request.map.ToMonotonicNs(request.end_ticks));
    session_.end_realtime_ns = request.map.ToUnixNs(request.end_ticks);
  }
  {
    const MutexLock writing(&writing_);
    map_ = request.map;
    realtime_ = callbacks_.realtime;
    const uint64_t zero = request.map.zero_ticks();
    window_.zero_ns =
        realtime_ ? request.map.ToUnixNs(zero) : Signed(request.map.ToMonotonicNs(zero));
    window_.start_ps = request.map.ToPs(request.start_ticks);
    if (request.end_ticks != UINT64_MAX) {
      end_ns_ = realtime_ ? session_.end_realtime_ns : session_.end_monotonic_ns;
    }
    writer_ = std::make_unique<provider::TraceWriter>(name_, index_, request_.sink, request_.names,
                                                      window_);
    before_ = SampleClocks(uses_tsc_);
  }
  incoming_ = std::make_unique<provider::EventBatch>();
  phase_ = Phase::kRecording;
  absl::Status status = Call(callbacks_.start, "start");
  if (status.ok()) return status;
  // There will be no Stop. The events so far stay.
  const MutexLock writing(&writing_);
  Hold();
  Leave();
  Finish(std::min(end_ns_, NowNs()));
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
  if (incoming_ == nullptr) return JOBSCOPE_E_STATE;
  for (size_t i = 0; i < count; ++i, at += stride) {
    jobscope_provider_event event;
    std::memcpy(&event, at, sizeof(event));
    ++attempted_;
    if (incoming_->bytes() >= kBufferBytes && phase_ == Phase::kStopping) {
      // The window's end is known and nobody else processes the events: encode them here.
      const MutexLock writing(&writing_);
      Hold();
      Encode(Clock::time_point::max(), end_ns_);
    }
    if (incoming_->bytes() >= kBufferBytes) {
      ++buffer_full_;
      lost_so_far_.fetch_add(1, std::memory_order_relaxed);
    } else if (!incoming_->Add(event)) {
      ++malformed_;
      lost_so_far_.fetch_add(1, std::memory_order_relaxed);
    }
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
  if (phase_ != Phase::kStopping || incoming_ == nullptr) {
    return absl::FailedPreconditionError("an XSpace can be added only inside of stop()");
  }
  const MutexLock writing(&writing_);
  lock.Release();  // merging takes time proportional to the XSpace's size
  if (xspaces_ == nullptr) {
    framework::ForeignOptions options;
    options.origin = name_;
    options.segment_source = kSourceProviderXSpace + static_cast<uint32_t>(index_);
    options.drop_steps = true;  // only the program's own marks remain
    xspaces_ = std::make_unique<framework::ForeignXSpace>(request_.sink, request_.names,
                                                          std::move(options));
  }
  framework::ForeignWindow window;
  window.start_ps = window_.start_ps;
  window.end_ps = (end_ns_ - window_.zero_ns) * 1000;
  const framework::ForeignTime time(map_, before_, SampleClocks(uses_tsc_));
  return xspaces_->Merge(bytes, time, window);
}

void ProviderCollector::Hold() {
  if (incoming_ == nullptr || incoming_->events().empty()) return;
  held_.push_back({Clock::now(), std::move(incoming_)});
  incoming_ = std::make_unique<provider::EventBatch>();
}

void ProviderCollector::Encode(Clock::time_point until, int64_t end_ns) {
  while (!held_.empty() && held_.front().came <= until) {
    // No longer held when writing throws: it would be written twice.
    const std::unique_ptr<provider::EventBatch> batch = std::move(held_.front().batch);
    held_.pop_front();
    if (writer_ != nullptr) writer_->Write(*batch, end_ns);
  }
}

absl::Duration ProviderCollector::Drain() {
  MutexLock lock(&mutex_);
  if (phase_ != Phase::kRecording) return absl::InfiniteDuration();
  const MutexLock writing(&writing_);
  // Losses then occur in the buffer, where they are counted.
  if (request_.sink->Full()) return kLookEvery;
  Hold();
  lock.Release();
  size_t held_bytes = 0;
  for (const Held& held : held_) held_bytes += held.batch->bytes();
  const auto now = Clock::now();
  // An event that ends in the future is clipped to now.
  Encode(held_bytes > kBufferBytes ? now : now - kHoldFor, std::min(end_ns_, NowNs()));
  return kLookEvery;
}

void ProviderCollector::CallStop(int64_t end_monotonic_ns, int64_t end_realtime_ns) {
  session_.end_monotonic_ns = end_monotonic_ns;
  session_.end_realtime_ns = end_realtime_ns;
  {
    const MutexLock writing(&writing_);
    end_ns_ = std::min(end_ns_, realtime_ ? end_realtime_ns : end_monotonic_ns);
  }
  if (BeginCall()) {
    phase_ = Phase::kStopping;
    if (absl::Status status = Call(callbacks_.stop, "stop"); !status.ok()) {
      degraded_reason_ = std::string(status.message());
    }
  }
  phase_ = Phase::kIdle;
  const MutexLock writing(&writing_);
  Hold();
  incoming_.reset();
}

absl::Status ProviderCollector::Stop(uint64_t end_ticks) {
  MutexLock lock(&mutex_);
  called_.Wait(&mutex_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !calling_; });
  TickMap map;
  {
    const MutexLock writing(&writing_);
    map = map_;
  }
  if (phase_ == Phase::kArmed) {  // without a start there is no window
    CallStop(0, 0);
  } else if (phase_ == Phase::kRecording) {
    CallStop(Signed(map.ToMonotonicNs(end_ticks)), map.ToUnixNs(end_ticks));
  }
  lock.Release();
  const MutexLock writing(&writing_);
  if (writer_ != nullptr) Finish(end_ns_);
  return absl::OkStatus();
}

int64_t ProviderCollector::NowNs() const {
  return realtime_ ? RealtimeNs() : Signed(MonotonicNs());
}

void ProviderCollector::Finish(int64_t end_ns) {
  Encode(Clock::time_point::max(), end_ns);
  if (xspaces_ != nullptr) xspaces_->Finish();
  writer_->Finish();
  account_ = writer_->account();
  writer_.reset();
}

CollectorReport ProviderCollector::Report() {
  CollectorReport report;
  const MutexLock lock(&mutex_);
  const MutexLock writing(&writing_);
  incoming_.reset();
  held_.clear();
  writer_.reset();
  if (!takes_part_) {
    report.state = CollectorState::kOff;
    report.reason = off_reason_;
    return report;
  }
  if (!degraded_reason_.empty()) {
    report.state = CollectorState::kDegraded;
    report.reason = degraded_reason_;
  }
  report.events = account_.events;
  report.outside = account_.outside;
  const auto lost = [&report](const char* cause, uint64_t events) {
    if (events > 0) report.lost_by_cause[cause] = events;
  };
  lost("store_full", account_.store_full);
  lost("buffer_full", buffer_full_);
  lost("malformed", malformed_);
  lost("too_many_lines", account_.without_line);
  report.attempted = attempted_;
  report.account_unknown = account_unknown_;
  AddXSpacesTo(&report);
  xspaces_.reset();
  lost_so_far_ = 0;
  return report;
}

void ProviderCollector::AddXSpacesTo(CollectorReport* report) const {
  if (xspaces_ == nullptr) return;
  const framework::ForeignAccount& account = xspaces_->account();
  report->attempted += account.attempted;
  report->events += account.events;
  report->outside += account.outside;
  for (const auto& [cause, events] : account.lost_by_cause) report->lost_by_cause[cause] += events;
  report->warnings.insert(report->warnings.end(), account.warnings.begin(), account.warnings.end());
}

}  // namespace jobscope
