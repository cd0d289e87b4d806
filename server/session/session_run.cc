// SPDX-License-Identifier: Apache-2.0
#include "server/session/session_run.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/guard/resource_guard.h"
#include "server/session/step_warnings.h"
#include "server/session/summary.h"

namespace jobscope {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// How long before a commanded instant the collectors are started, so that they record when it
// comes; earlier events are clipped. On a busy machine a thread may wait for tens of milliseconds
// to be scheduled, three times between a command and the start of recording (8 workers computing on
// two cores: up to 61 ms).
constexpr auto kStartLead = seconds(1);
// How long a session that waits for its command records ahead of it. Clients gather workers,
// measure clocks and send the command within this time, also on a busy machine, unless a worker is
// slow to arm.
constexpr absl::Duration kRecordAhead = absl::Seconds(5);

}  // namespace

// The part of a session that a hanging collector may still use after the session's end.
class SessionRun::Context : public SessionContext, public SessionEvents {
 public:
  Context(SessionRun* run, uint64_t store_bytes, uint64_t max_trace_bytes)
      : store(std::make_unique<xspace::Store>(store_bytes, max_trace_bytes)),
        names(store.get()),
        run_(run) {
    store->SetSpentListener([this] { OnStoreSpent(); });
  }

  // Returns a context's store for its consumers after the session's end. The last consumer to
  // release it closes it.
  static std::shared_ptr<xspace::Store> ShareStore(const std::shared_ptr<Context>& context) {
    return {context->store.get(), [context](xspace::Store* store) { store->Close(); }};
  }

  void OnStepWindowOpened(uint64_t ticks) override {
    const MutexLock guard(&mutex_);
    if (run_ == nullptr) return;
    const MutexLock lock(&run_->mutex_);
    run_->window_opened_ = true;
    run_->window_open_ticks_ = ticks;
    run_->changed_.NotifyAll();
  }

  void OnStepWindowClosed(uint64_t ticks) override {
    const MutexLock guard(&mutex_);
    if (run_ == nullptr) return;
    const MutexLock lock(&run_->mutex_);
    run_->window_closed_ = true;
    run_->window_close_ticks_ = ticks;
    run_->changed_.NotifyAll();
  }

  void OnClockJumped(uint64_t last_good_ticks) override {
    const MutexLock guard(&mutex_);
    if (run_ == nullptr) return;
    const MutexLock lock(&run_->mutex_);
    if (!run_->clock_held_until_.has_value()) run_->clock_held_until_ = last_good_ticks;
    if (!run_->ended_by_.has_value()) run_->ended_by_ = EndedBy::kClock;
    run_->changed_.NotifyAll();
  }

  // The trace has reached its ceiling: what follows would be lost.
  void OnStoreSpent() {
    const MutexLock guard(&mutex_);
    if (run_ == nullptr) return;
    const MutexLock lock(&run_->mutex_);
    if (!run_->ended_by_.has_value()) run_->ended_by_ = EndedBy::kMaxTraceBytes;
    run_->changed_.NotifyAll();
  }

  // The run ends; a hanging collector may still call.
  void Detach() {
    const MutexLock guard(&mutex_);
    run_ = nullptr;
  }

  const std::unique_ptr<xspace::Store> store;
  xspace::Names names;

 private:
  Mutex mutex_;
  SessionRun* run_ ABSL_GUARDED_BY(mutex_);
};

SessionRun::SessionRun(SessionOptions options, Environment environment)
    : options_(std::move(options)),
      environment_(std::move(environment)),
      clock_(environment_.clock, environment_.uses_tsc),
      context_(std::make_shared<Context>(this, options_.store_bytes, options_.max_trace_bytes)),
      store_(Context::ShareStore(context_)) {}

SessionResult SessionRun::Run() {
  SessionResult result;
  try {
    result = RunStages();
  } catch (const std::exception&) {
    tasks_.Finish();  // their threads stop the collectors that record
    result = SessionResult();
    result.status = OutOfMemoryError();
  }
  context_->Detach();
  SetPhase(SessionPhase::kDelivering, Clock::time_point::max());
  return result;
}

SessionResult SessionRun::RunStages() {
  const SessionClock::Pause pause = [this](std::chrono::nanoseconds duration) {
    Wait(Clock::now() + duration, [] { return false; });
  };
  clock_.Begin(&warnings_);
  if (absl::Status armed = Arm(); !armed.ok()) {
    SessionResult refused;
    refused.status = std::move(armed);
    return refused;
  }
  // A commanded session reports that it is armed only after this.
  clock_.AwaitBaseline(pause);
  clock_.Fix(pause, &warnings_);
  if (options_.on_command) TellArmed();
  if (!options_.on_command) {
    plan_ = PlanStart(options_, clock_.map(), clock_.NowTicks());
    started_ = WaitAndStart();
  } else if (const std::optional<StartCommand> command = AwaitCommand(); command.has_value()) {
    // Fixed again: the drift of the clocks since the arming would add to the start's error.
    clock_.Fix(pause, &warnings_);
    plan_ = PlanStart(*command, clock_.map(),
                      command->steps.has_value() ? clock_.NowTicks() : ReadyTicks());
    started_ = WaitAndStart();
  } else {
    plan_.start_ticks = plan_.zero_ticks = plan_.begin_ticks = clock_.NowTicks();
  }
  if (started_) Record();
  StopAndReport();
  return Finish();
}

absl::StatusOr<size_t> SessionRun::FindRoom(size_t collectors) {
  CaptureRoom room = FindRoomForCapture(collectors, options_.store_bytes);
  if (!room.status.ok()) return std::move(room.status);
  if (room.store_bytes < options_.store_bytes) {
    context_ = std::make_shared<Context>(this, room.store_bytes, options_.max_trace_bytes);
    const MutexLock lock(&mutex_);
    store_ = Context::ShareStore(context_);
  }
  if (!room.warning.empty()) warnings_.push_back(std::move(room.warning));
  return room.collectors;
}

absl::Status SessionRun::Arm() {
  // Reads the identity now: the program may later remove its rank from the environment.
  static_cast<void>(environment_.identity());
  ArmRequest request;
  request.recording = options_.recording;
  request.lookback = options_.lookback;
  request.store_bytes = options_.store_bytes;
  if (options_.on_command && options_.record_ahead) request.ahead = kRecordAhead;
  const auto slots = tasks_.Choose(environment_.slots, request);
  const absl::StatusOr<size_t> most_tasks = FindRoom(std::max<size_t>(slots.size(), 1));
  if (!most_tasks.ok()) return most_tasks.status();
  tasks_.Create(slots, *most_tasks, context_);
  {
    const MutexLock lock(&mutex_);
    collectors_ = tasks_.collectors();
  }
  request.sink = context_->store.get();
  request.names = &context_->names;
  request.events = context_.get();
  tasks_.Arm(request);
  return absl::OkStatus();
}

void SessionRun::CheckClock() {
  const bool holds = clock_.Holds();
  {
    const MutexLock lock(&mutex_);
    if (holds && !clock_held_until_.has_value()) return;
  }
  warnings_.emplace_back(
      "the time stamp counter jumped while the capture recorded (the machine was suspended, or the "
      "process moved to another one): the trace ends before it, and later events are lost; capture "
      "again");
}

void SessionRun::TellArmed() {
  {
    const MutexLock lock(&mutex_);
    if (EndRequested()) return;
    phase_ = SessionPhase::kArmed;
  }
  if (!environment_.armed) return;
  SessionArmed armed;
  armed.store = store();
  armed.store_bytes = context_->store->cap_bytes();
  armed.collectors = tasks_.StatesAfterArm();
  const uint64_t now_ticks = clock_.NowTicks();
  if (const uint64_t oldest = OldestTicks(); oldest < now_ticks) {
    const double seconds =
        static_cast<double>(now_ticks - oldest) / clock_.map().ticks_per_second();
    armed.lookback = std::min(options_.lookback, absl::Seconds(seconds));
  }
  environment_.armed(armed);
}

std::optional<StartCommand> SessionRun::AwaitCommand() {
  Wait(Clock::time_point::max(), [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return command_.has_value() || EndRequested();
  });
  const MutexLock lock(&mutex_);
  return EndRequested() ? std::nullopt : command_;
}

bool SessionRun::WaitAndStart() {
  SetPhase(SessionPhase::kWaiting, Clock::time_point::max());
  // The first of the commanded steps may begin right at the instant: its trigger is armed at once.
  const bool at_once = options_.on_command && plan_.steps.has_value();
  const auto ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return EndRequested(); };
  if (!at_once && Wait(clock_.TimeOf(plan_.start_ticks) - kStartLead, ended)) return false;
  if (plan_.steps.has_value()) return WaitForStepWindow();

  AddLookback(options_.lookback, OldestTicks(), clock_.map(), &plan_);
  StartCollectors(/*watching_steps=*/true);
  StartCollectors(/*watching_steps=*/false);
  tasks_.AwaitStarts();
  if (plan_.begin_ticks < plan_.start_ticks) {
    // Without what the rings have overwritten since the arming.
    if (const uint64_t oldest = OldestTicks(); oldest != UINT64_MAX) {
      plan_.begin_ticks = std::max(plan_.begin_ticks, oldest);
    }
  }
  if (clock_.NowTicks() < plan_.start_ticks && Wait(clock_.TimeOf(plan_.start_ticks), ended))
    return false;
  NoteStarted();
  return true;
}

bool SessionRun::WaitForStepWindow() {
  StartCollectors(/*watching_steps=*/true);
  tasks_.AwaitStarts();
  NoteStarted();
  auto limit = Clock::time_point::max();
  if (plan_.deadline_ticks != UINT64_MAX) {
    limit = clock_.TimeOf(plan_.deadline_ticks);
  } else if (plan_.duration != absl::InfiniteDuration()) {
    limit = Clock::now() + absl::ToChronoNanoseconds(plan_.duration);
  }
  SetPhase(SessionPhase::kWaiting, limit);
  Wait(limit,
       [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return window_opened_ || EndRequested(); });
  {
    const MutexLock lock(&mutex_);
    if (!window_opened_) {
      warnings_.push_back(NoStepBegan(*plan_.steps));
      end_ticks_ = clock_.NowTicks();
      if (!plan_.keep_zero) plan_.zero_ticks = end_ticks_;
      if (!ended_by_.has_value()) ended_by_ = EndedBy::kDuration;
      return true;  // the watchers have been started and must be stopped
    }
    if (plan_.keep_zero && window_open_ticks_ < plan_.zero_ticks) {
      warnings_.push_back(
          FirstStepBeganEarly(clock_.Nanoseconds(plan_.zero_ticks - window_open_ticks_)));
    }
    OpenStepWindow(window_open_ticks_, clock_.map(), &plan_);
    recording_ticks_ = plan_.start_ticks;
  }
  StartCollectors(/*watching_steps=*/false);
  tasks_.AwaitStarts();
  return true;
}

void SessionRun::NoteStarted() {
  recording_ticks_ = plan_.start_ticks;
  recording_ticks_ = std::max(recording_ticks_, tasks_.RecordingSince());
  SessionStarted started;
  started.start_monotonic_ns = clock_.map().ToMonotonicNs(recording_ticks_);
  if (plan_.commanded_ticks.has_value()) {
    plan_.late_ns += started.start_monotonic_ns - clock_.map().ToMonotonicNs(plan_.start_ticks);
  }
  started.late_ns = plan_.late_ns;
  if (environment_.started) environment_.started(started);
}

void SessionRun::Record() {
  if (end_ticks_ != 0) return;  // the step window never opened
  const auto planned_end = plan_.deadline_ticks == UINT64_MAX ? Clock::time_point::max()
                                                              : clock_.TimeOf(plan_.deadline_ticks);
  SetPhase(SessionPhase::kRecording, planned_end);
  Wait(planned_end,
       [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return window_closed_ || EndRequested(); });

  const MutexLock lock(&mutex_);
  if (clock_held_until_.has_value()) {
    end_ticks_ = *clock_held_until_;
  } else if (EndRequested()) {
    end_ticks_ = clock_.NowTicks();
  } else if (window_closed_) {
    end_ticks_ = window_close_ticks_;
    ended_by_ = EndedBy::kSteps;
  } else {
    end_ticks_ = plan_.deadline_ticks;
    ended_by_ = EndedBy::kDuration;
  }
}

void SessionRun::StopAndReport() {
  SetPhase(SessionPhase::kDraining, Clock::now());
  end_ticks_ = std::max(end_ticks_, plan_.zero_ticks);
  {
    const MutexLock lock(&mutex_);
    if (ended_by_ == EndedBy::kShutdown) tasks_.HurryUp();
  }
  tasks_.Stop(end_ticks_);
  CheckClock();
  tasks_.Report();
  tasks_.Finish();
}

SessionResult SessionRun::Finish() {
  SessionResult result;
  SummaryInput input;
  {
    const MutexLock lock(&mutex_);
    if (cancelled_) {
      result.status = absl::CancelledError("the caller disconnected; the capture was dropped");
      return result;
    }
    input.ended_by = ended_by_;
    input.command = command_;
  }
  if (input.ended_by == EndedBy::kMaxTraceBytes) {
    warnings_.push_back(absl::StrCat(
        "the recording ended early: its events reached this worker's ceiling of ",
        options_.max_trace_bytes >> 20,
        " MiB; record less, or have the worker started with a higher JOBSCOPE_MAX_TRACE_MB "
        "(options.max_trace_bytes)"));
  }
  SessionOptions in_effect = options_;
  in_effect.duration = plan_.duration;
  in_effect.steps = plan_.steps;
  in_effect.store_bytes = context_->store->cap_bytes();
  input.options = &in_effect;
  input.identity = environment_.identity();
  input.uses_tsc = environment_.uses_tsc;
  input.zero_unix_ns = clock_.map().ToUnixNs(plan_.zero_ticks);
  if (started_) input.start_unix_ns = clock_.map().ToUnixNs(recording_ticks_);
  input.duration_ns = clock_.Nanoseconds(end_ticks_ - plan_.zero_ticks);
  input.lookback_ns = clock_.Nanoseconds(plan_.lookback_ticks());
  input.late_ns = plan_.late_ns;
  input.warnings = warnings_;
  input.absent = tasks_.absent();
  input.tasks = &tasks_.tasks();
  result.summary = MakeSummary(input);
  {
    const MutexLock lock(&mutex_);
    lost_ = result.summary.lost();
  }
  if (!AppendSummary(&result.summary, context_->store.get())) {
    result.status = absl::ResourceExhaustedError(
        "the store has no room for the capture's summary; ask for a larger store "
        "(JOBSCOPE_STORE_MB)");
    return result;
  }
  result.store = store();
  return result;
}

void SessionRun::Stop(EndedBy cause) {
  const MutexLock lock(&mutex_);
  if (!ended_by_.has_value()) ended_by_ = cause;
  changed_.NotifyAll();
}

void SessionRun::Cancel() {
  const MutexLock lock(&mutex_);
  cancelled_ = true;
  if (!ended_by_.has_value()) ended_by_ = EndedBy::kCancelled;
  changed_.NotifyAll();
}

void SessionRun::Wake() {
  const MutexLock lock(&mutex_);
  woken_ = true;
  changed_.NotifyAll();
}

bool SessionRun::Command(StartCommand command) {
  const MutexLock lock(&mutex_);
  if (phase_ != SessionPhase::kArmed || command_.has_value() || EndRequested()) return false;
  command_ = std::move(command);
  changed_.NotifyAll();
  return true;
}

void SessionRun::SkipToDelivery() { SetPhase(SessionPhase::kDelivering, Clock::time_point::max()); }

void SessionRun::AwaitDelivery() {
  Wait(Clock::time_point::max(),
       [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return delivered_; });
}

void SessionRun::Delivered() {
  const MutexLock lock(&mutex_);
  delivered_ = true;
  changed_.NotifyAll();
}

SessionProgress SessionRun::Progress() const {
  SessionProgress progress;
  std::vector<Collector*> collectors;
  std::optional<uint64_t> lost;
  const std::shared_ptr<xspace::Store> store = this->store();
  {
    const MutexLock lock(&mutex_);
    progress.phase = phase_;
    lost = lost_;
    if (!lost.has_value()) collectors = collectors_;
  }
  progress.lost = lost.value_or(0);
  for (const Collector* collector : collectors) progress.lost += collector->LostSoFar();
  progress.events = store->events();
  progress.bytes = store->appended_bytes();
  return progress;
}

v1::Busy SessionRun::Describe() const {
  v1::Busy busy;
  busy.set_session_id(options_.session_id);
  busy.set_peer(options_.peer);
  const MutexLock lock(&mutex_);
  busy.set_state(Name(phase_));
  if (planned_end_ != Clock::time_point::max()) {
    const auto left = std::chrono::duration_cast<milliseconds>(planned_end_ - Clock::now());
    busy.set_remaining_ms(static_cast<uint64_t>(std::max<int64_t>(0, left.count())));
  }
  return busy;
}

void SessionRun::SetPhase(SessionPhase phase, Clock::time_point planned_end) {
  const MutexLock lock(&mutex_);
  phase_ = phase;
  planned_end_ = planned_end;
}

bool SessionRun::EndRequested() const { return ended_by_.has_value(); }

bool SessionRun::Wait(Clock::time_point deadline, const std::function<bool()>& ended) {
  while (true) {
    const auto line =
        environment_.process_queue ? environment_.process_queue() : Clock::time_point::max();
    const MutexLock lock(&mutex_);
    changed_.WaitUntil(&mutex_, std::min(deadline, line),
                       [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return woken_ || ended(); });
    woken_ = false;
    if (ended()) return true;
    if (Clock::now() >= deadline) return false;
  }
}

std::shared_ptr<xspace::Store> SessionRun::store() const {
  const MutexLock lock(&mutex_);
  return store_;
}

void SessionRun::StartCollectors(bool watching_steps) {
  StartRequest request;
  request.start_ticks = plan_.begin_ticks;
  request.map = clock_.map().WithZero(plan_.zero_ticks);
  if (watching_steps) request.steps = plan_.steps;
  if (!plan_.steps.has_value()) request.end_ticks = plan_.deadline_ticks;
  request.keep_zero = plan_.keep_zero;
  tasks_.Start(request, watching_steps);
}

uint64_t SessionRun::OldestTicks() const {
  return std::max(tasks_.OldestTicks(), clock_.past_from_ticks());
}

uint64_t SessionRun::ReadyTicks() const {
  const uint64_t since_ticks = tasks_.RecordingSince();
  const uint64_t now_ticks = clock_.NowTicks();
  return since_ticks != 0 ? std::min(since_ticks, now_ticks) : now_ticks;
}

}  // namespace jobscope
