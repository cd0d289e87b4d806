// SPDX-License-Identifier: Apache-2.0
#include "server/session/session_run.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/guard/resource_guard.h"
#include "server/session/session_warnings.h"
#include "server/session/summary.h"

namespace jobscope {
namespace {

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

SessionRun::SessionRun(SessionOptions options, Environment environment)
    : options_(std::move(options)),
      environment_(std::move(environment)),
      control_(std::make_shared<SessionControl>(std::move(environment_.process_queue))),
      tasks_([this] { control_->ProcessQueue(); }, [this] { return control_->shutdown_since(); }),
      clock_(environment_.clock, environment_.uses_tsc),
      context_(std::make_shared<SessionContext>(control_, options_.store_bytes,
                                                options_.max_trace_bytes)),
      store_(ShareStore(context_)),
      meter_(store_) {}

SessionResult SessionRun::Run() {
  SessionResult result;
  try {
    result = RunStages();
  } catch (const std::exception&) {
    tasks_.Abandon();  // their threads stop the collectors that record
    result = SessionResult();
    result.status = OutOfMemoryError();
  }
  control_->SetPhase(SessionPhase::kDelivering);
  return result;
}

SessionResult SessionRun::RunStages() {
  const SessionClock::Pause pause = [this](std::chrono::nanoseconds duration) {
    control_->Sleep(duration);
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
  } else if (const auto command = control_->AwaitCommand(); command.has_value()) {
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
    context_ =
        std::make_shared<SessionContext>(control_, room.store_bytes, options_.max_trace_bytes);
    store_ = ShareStore(context_);
    meter_.SetStore(store_);
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
  if (options_.on_command && options_.record_ahead) request.ahead = kRecordAhead;
  const auto slots = tasks_.Choose(environment_.slots, request);
  const absl::StatusOr<size_t> most_tasks = FindRoom(std::max<size_t>(slots.size(), 1));
  if (!most_tasks.ok()) return most_tasks.status();
  request.store_bytes = context_->store->cap_bytes();
  tasks_.Create(slots, *most_tasks, context_);
  meter_.SetCollectors(tasks_.collectors());
  request.sink = context_->store.get();
  request.names = &context_->names;
  request.events = context_->control.get();
  tasks_.Arm(request);
  return absl::OkStatus();
}

void SessionRun::CheckClock() {
  const bool holds = clock_.Holds();
  if (!holds || control_->clock_jumped()) warnings_.push_back(ClockJumped());
}

void SessionRun::TellArmed() {
  if (!control_->BecomeArmed() || !environment_.armed) return;
  SessionArmed armed;
  armed.store = store_;
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

bool SessionRun::WaitAndStart() {
  control_->SetPhase(SessionPhase::kWaiting);
  // The first of the commanded steps may begin right at the instant: its trigger is armed at once.
  const bool at_once = options_.on_command && plan_.steps.has_value();
  if (!at_once && control_->AwaitEnd(clock_.TimeOf(plan_.start_ticks) - kStartLead)) return false;
  if (plan_.steps.has_value()) {
    if (options_.lookback > absl::ZeroDuration()) warnings_.push_back(NoLookbackWithSteps());
    return WaitForStepWindow();
  }

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
  if (clock_.NowTicks() < plan_.start_ticks &&
      control_->AwaitEnd(clock_.TimeOf(plan_.start_ticks))) {
    return false;
  }
  // Before the report, whose reader may ask at once who records.
  control_->SetPhase(SessionPhase::kRecording, PlannedEnd());
  NoteStarted();
  return true;
}

bool SessionRun::WaitForStepWindow() {
  StartCollectors(/*watching_steps=*/true);
  refused_ = tasks_.AwaitStepWatcher();
  if (!refused_.ok()) return false;
  NoteStarted();
  auto limit = Clock::time_point::max();
  if (plan_.deadline_ticks != UINT64_MAX) {
    limit = clock_.TimeOf(plan_.deadline_ticks);
  } else if (plan_.duration != absl::InfiniteDuration()) {
    limit = Clock::now() + absl::ToChronoNanoseconds(plan_.duration);
  }
  control_->SetPhase(SessionPhase::kWaiting, limit);
  const std::optional<uint64_t> opened_ticks = control_->AwaitStepWindow(limit);
  if (!opened_ticks.has_value()) {
    warnings_.push_back(
        NoStepBegan(*plan_.steps, /*stopped=*/control_->ended_by() != EndedBy::kDuration));
    end_ticks_ = clock_.NowTicks();
    if (!plan_.keep_zero) plan_.zero_ticks = end_ticks_;
    return true;  // the watchers have been started and must be stopped
  }
  if (plan_.keep_zero && *opened_ticks < plan_.zero_ticks) {
    warnings_.push_back(FirstStepBeganEarly(clock_.Nanoseconds(plan_.zero_ticks - *opened_ticks)));
  }
  OpenStepWindow(*opened_ticks, clock_.map(), &plan_);
  recording_ticks_ = plan_.start_ticks;
  StartCollectors(/*watching_steps=*/false);
  tasks_.AwaitStarts();
  control_->SetPhase(SessionPhase::kRecording, PlannedEnd());
  return true;
}

SessionRun::Clock::time_point SessionRun::PlannedEnd() const {
  return plan_.deadline_ticks == UINT64_MAX ? Clock::time_point::max()
                                            : clock_.TimeOf(plan_.deadline_ticks);
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
  end_ticks_ =
      control_->AwaitRecorded(PlannedEnd(), plan_.deadline_ticks).value_or(clock_.NowTicks());
}

void SessionRun::StopAndReport() {
  control_->SetPhase(SessionPhase::kDraining, Clock::now());
  end_ticks_ = std::max(end_ticks_, plan_.zero_ticks);
  tasks_.Stop(end_ticks_);
  CheckClock();
  tasks_.Report();
  tasks_.Finish();
}

SessionResult SessionRun::Finish() {
  SessionResult result;
  if (control_->cancelled()) {
    result.status = absl::CancelledError("the caller disconnected; the capture was dropped");
    return result;
  }
  if (!refused_.ok()) {
    result.status = refused_;
    return result;
  }
  SummaryInput input;
  input.ended_by = control_->ended_by();
  input.command = control_->command();
  const xspace::Store* const sink = context_->store.get();
  for (std::string& warning :
       StoreWarnings(*sink, options_, input.ended_by == EndedBy::kMaxTraceBytes)) {
    warnings_.push_back(std::move(warning));
  }
  input.only_ceiling_reached = sink->spent() && !sink->lacked_space();
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
  meter_.SetLost(result.summary.lost());
  if (!AppendSummary(&result.summary, context_->store.get())) {
    result.status = absl::ResourceExhaustedError(
        absl::StrCat("the store has no room for the capture's summary; ask for a larger store (",
                     options_.store_setting, ")"));
    return result;
  }
  result.store = store_;
  return result;
}

v1::Busy SessionRun::Describe() const {
  v1::Busy busy;
  busy.set_session_id(options_.session_id);
  busy.set_peer(options_.peer);
  control_->Describe(&busy);
  return busy;
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
