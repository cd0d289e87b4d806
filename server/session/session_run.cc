// SPDX-License-Identifier: Apache-2.0
#include "server/session/session_run.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "jobscope/detail/ticks.h"
#include "server/guard/resource_guard.h"
#include "server/session/summary.h"

namespace jobscope {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Deadlines of the verbs (collectors/collector.h).
constexpr auto kArmLimit = seconds(5);
// A collector that takes longer to start records what comes after it: a job whose threads wait
// for a second to be run, on a machine with far too many, still gets its trace. (It was left alone
// before: the capture said that it had begun, and the host's bits stayed off until its end.)
constexpr auto kStartLimit = seconds(1);
constexpr auto kLateStartLimit = milliseconds(500);  // from the end of the recording
constexpr auto kStopLimit = seconds(2);
constexpr auto kReportLimit = seconds(1);
// A process that leaves waits a second for its captures (process_server.cc), 0.3 of it for what is
// on the way then. With the limits above, one collector with much to hand over (JAX's profiler)
// cost the client the end of all others' trace in 4 of 14 exits.
constexpr auto kLateStartLimitLeaving = milliseconds(50);
constexpr auto kStopLimitLeaving = milliseconds(400);
constexpr auto kReportLimitLeaving = milliseconds(100);

// Collectors are started this much before a commanded instant, so that they record when it comes;
// what they record before it is clipped. On a busy machine a thread may wait for tens of
// milliseconds to be run, three times between a command and the recorder's bits (8 workers that
// computed on two cores: up to 61 ms).
constexpr auto kStartLead = seconds(1);
// A session that waits for its command records ahead of it for so long: clients gather, measure
// clocks and command within it, also on a busy machine, unless somebody is slow to arm.
constexpr absl::Duration kRecordAhead = absl::Seconds(5);

// How ticks run now is told by two samples that are this near to each other: nobody is suspended or
// moved in between. At 50 ns of bracket the shortest distance gives a rate to 100 ppm.
constexpr uint64_t kMaxRecentNs = 1'000'000'000;
constexpr auto kRecent = milliseconds(1);

// As in v1::Busy; in the order of SessionRun::Phase.
const char* PhaseName(int phase) {
  static constexpr const char* kNames[] = {"arming",    "armed",    "waiting",
                                           "recording", "draining", "delivering"};
  return kNames[phase];
}

}  // namespace

// The part of a session that a hanging collector may still touch after the session's end.
class SessionRun::Context : public SessionContext, public SessionEvents {
 public:
  Context(SessionRun* run, uint64_t store_bytes)
      : store(std::make_unique<xspace::Store>(store_bytes)), names(store.get()), run_(run) {}

  // The store of a context, for those that wait for the session's end: closed when the last of them
  // lets go of it.
  static std::shared_ptr<xspace::Store> ShareStore(const std::shared_ptr<Context>& context) {
    return {context->store.get(), [context](xspace::Store* store) { store->Close(); }};
  }

  void OnStepWindowOpened(uint64_t ticks) override {
    std::lock_guard<std::mutex> guard(mutex_);
    if (run_ == nullptr) return;
    std::lock_guard<std::mutex> lock(run_->mutex_);
    run_->window_opened_ = true;
    run_->window_open_ticks_ = ticks;
    run_->changed_.notify_all();
  }

  void OnStepWindowClosed(uint64_t ticks) override {
    std::lock_guard<std::mutex> guard(mutex_);
    if (run_ == nullptr) return;
    std::lock_guard<std::mutex> lock(run_->mutex_);
    run_->window_closed_ = true;
    run_->window_close_ticks_ = ticks;
    run_->changed_.notify_all();
  }

  void OnClockJumped(uint64_t last_good_ticks) override {
    std::lock_guard<std::mutex> guard(mutex_);
    if (run_ == nullptr) return;
    std::lock_guard<std::mutex> lock(run_->mutex_);
    if (!run_->clock_held_until_.has_value()) run_->clock_held_until_ = last_good_ticks;
    if (run_->ended_by_.empty()) run_->ended_by_ = "clock";
    run_->changed_.notify_all();
  }

  // The run ends; a collector that hangs may still call.
  void Detach() {
    std::lock_guard<std::mutex> guard(mutex_);
    run_ = nullptr;
  }

  const std::unique_ptr<xspace::Store> store;
  xspace::Names names;

 private:
  std::mutex mutex_;
  SessionRun* run_;
};

SessionRun::SessionRun(SessionOptions options, Environment environment)
    : options_(std::move(options)),
      environment_(std::move(environment)),
      context_(std::make_shared<Context>(this, options_.store_bytes)),
      store_(Context::ShareStore(context_)) {}

SessionResult SessionRun::Run() {
  SessionResult result;
  try {
    result = RunStages();
  } catch (const std::exception&) {
    for (const auto& task : tasks_) task->Finish();  // their threads stop those that record
    result = SessionResult();
    result.status = OutOfMemoryError();
  }
  context_->Detach();
  SetPhase(Phase::kDelivering, Clock::time_point::max());
  return result;
}

SessionResult SessionRun::RunStages() {
  recent_ = SampleClocks(environment_.uses_tsc);
  if (std::optional<std::string> warning = environment_.clock->CheckClocksource()) {
    warnings_.push_back(*std::move(warning));
  }
  if (absl::Status armed = Arm(); !armed.ok()) {
    SessionResult refused;
    refused.status = std::move(armed);
    return refused;
  }
  AwaitBaseline();
  FixClock();
  if (options_.on_command) TellArmed();
  if (!options_.on_command) {
    plan_ = PlanStart(options_, map_, NowTicks());
    started_ = WaitAndStart();
  } else if (const std::optional<StartCommand> command = AwaitCommand(); command.has_value()) {
    // Anew: what clocks have drifted apart since the arming would be added to the start's error.
    FixClock();
    plan_ = PlanStart(*command, map_, command->steps.has_value() ? NowTicks() : ReadyTicks());
    started_ = WaitAndStart();
  } else {
    plan_.start_ticks = plan_.zero_ticks = plan_.begin_ticks = NowTicks();
  }
  if (started_) Record();
  StopAndReport();
  return Finish();
}

absl::StatusOr<size_t> SessionRun::FindRoom(size_t collectors) {
  CaptureRoom room = FindRoomForCapture(collectors, options_.store_bytes);
  if (!room.status.ok()) return std::move(room.status);
  if (room.store_bytes < options_.store_bytes) {
    auto smaller = std::make_shared<Context>(this, room.store_bytes);
    std::lock_guard<std::mutex> lock(mutex_);
    context_ = std::move(smaller);
    store_ = Context::ShareStore(context_);
  }
  if (!room.warning.empty()) warnings_.push_back(std::move(room.warning));
  return room.collectors;
}

absl::Status SessionRun::StartTasks(const ArmRequest& request) {
  std::vector<std::shared_ptr<CollectorSlot>> slots;
  for (const std::shared_ptr<CollectorSlot>& slot : environment_.slots) {
    const std::string_view name = slot->collector()->name();
    if (const Verb verb = slot->wedged_in(); verb != Verb::kNone) {
      absent_.push_back(CollectorStateOf(
          name, "wedged",
          absl::StrCat("it still hangs in the verb ", VerbName(verb), " of an earlier capture")));
    } else if (const std::string why = slot->collector()->WhyOff(request); !why.empty()) {
      absent_.push_back(CollectorStateOf(name, "off", why));
    } else {
      slots.push_back(slot);
    }
  }
  const absl::StatusOr<size_t> most_tasks = FindRoom(std::max<size_t>(slots.size(), 1));
  if (!most_tasks.ok()) return most_tasks.status();
  tasks_.reserve(slots.size());  // a task that has begun is ended by this list
  for (const std::shared_ptr<CollectorSlot>& slot : slots) {
    const std::string_view name = slot->collector()->name();
    if (tasks_.size() == *most_tasks) {
      absent_.push_back(CollectorStateOf(
          name, "failed",
          "no thread for it can be created; raise the limit on threads (ulimit -u)"));
      continue;
    }
    std::shared_ptr<CollectorTask> task;
    if (absl::Status status = CollectorTask::Start(slot, context_, &task); !status.ok()) {
      absent_.push_back(CollectorStateOf(name, "failed", std::string(status.message())));
      continue;
    }
    tasks_.push_back(std::move(task));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& task : tasks_) collectors_.push_back(task->collector());
  return absl::OkStatus();
}

absl::Status SessionRun::Arm() {
  // Known from here on, also where the program removes its rank from the environment meanwhile.
  static_cast<void>(environment_.identity());
  ArmRequest request;
  request.levels = options_.levels;
  request.frameworks = options_.frameworks;
  request.record_shapes = options_.record_shapes;
  request.device_tracer = options_.device_tracer;
  request.lookback = options_.lookback;
  request.store_bytes = options_.store_bytes;
  if (options_.on_command && options_.record_ahead) request.ahead = kRecordAhead;
  if (absl::Status started = StartTasks(request); !started.ok()) return started;
  for (const std::string& name : options_.frameworks.names()) {
    const auto is_it = [&name](const auto& slot) { return slot->collector()->name() == name; };
    if (std::none_of(environment_.slots.begin(), environment_.slots.end(), is_it)) {
      absent_.push_back(
          CollectorStateOf(name, "failed", "this worker has no collector of this name"));
    }
  }
  request.sink = context_->store.get();
  request.names = &context_->names;
  request.events = context_.get();
  for (const auto& task : tasks_) task->PostArm(request);
  AwaitAll(kArmLimit);
  return absl::OkStatus();
}

// Only a session in the first 100 ms of a server waits here; one that is commanded does so before
// it says that it is armed.
void SessionRun::AwaitBaseline() {
  const uint64_t age_ns = environment_.clock->AgeNs(MonotonicNs());
  if (age_ns >= kMinBaselineNs) return;
  Wait(Clock::now() + std::chrono::nanoseconds(kMinBaselineNs - age_ns), [] { return false; });
}

// One affine map for the whole session (docs/trace_format.md, "Time"). Of a baseline that does not
// hold any more, another is taken, as in a young worker.
void SessionRun::FixClock() {
  ClockBaseline& clock = *environment_.clock;
  ClockSample now = SampleClocks(environment_.uses_tsc);
  if (now.monotonic_ns - recent_.monotonic_ns > kMaxRecentNs) {
    recent_ = now;
    Wait(Clock::now() + kRecent, [] { return false; });
    now = SampleClocks(environment_.uses_tsc);
  }
  if (const std::optional<std::string> jumped = clock.Check(recent_, now); jumped.has_value()) {
    warnings_.push_back(*jumped);
    AwaitBaseline();
    now = SampleClocks(environment_.uses_tsc);
    past_from_ticks_ = now.ticks;
  }
  recent_ = now;
  map_ = TickMap::FromSamples(clock.early(), now);
}

void SessionRun::CheckClock() {
  ClockWatch watch(map_, recent_);
  const bool holds = !environment_.uses_tsc || watch.Holds(SampleClocks(environment_.uses_tsc));
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (holds && !clock_held_until_.has_value()) return;
  }
  warnings_.emplace_back(
      "the time stamp counter jumped while the capture recorded (the machine was suspended, or the "
      "process moved to another one): the trace ends before it, and later events are lost; capture "
      "again");
}

void SessionRun::TellArmed() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (EndRequested()) return;
    phase_ = Phase::kArmed;
  }
  if (!environment_.armed) return;
  SessionArmed armed;
  armed.store = store_;
  armed.store_bytes = context_->store->cap_bytes();
  for (const auto& task : tasks_) armed.collectors.push_back(StateAfterArm(*task));
  armed.collectors.insert(armed.collectors.end(), absent_.begin(), absent_.end());
  const uint64_t now_ticks = NowTicks();
  if (const uint64_t oldest = OldestTicks(); oldest < now_ticks) {
    const double seconds = static_cast<double>(now_ticks - oldest) / map_.ticks_per_second();
    armed.lookback = std::min(options_.lookback, absl::Seconds(seconds));
  }
  environment_.armed(armed);
}

std::optional<StartCommand> SessionRun::AwaitCommand() {
  Wait(Clock::time_point::max(), [this] { return command_.has_value() || EndRequested(); });
  std::lock_guard<std::mutex> lock(mutex_);
  return EndRequested() ? std::nullopt : command_;
}

bool SessionRun::WaitAndStart() {
  SetPhase(Phase::kWaiting, Clock::time_point::max());
  // The first of the commanded steps may begin right at the instant: its trigger is armed at once.
  const bool at_once = options_.on_command && plan_.steps.has_value();
  const auto ended = [this] { return EndRequested(); };
  if (!at_once && Wait(TimeOf(plan_.start_ticks) - kStartLead, ended)) return false;
  if (plan_.steps.has_value()) return WaitForStepWindow();

  AddLookback(options_.lookback, OldestTicks(), map_, &plan_);
  PostStart(/*watching_steps=*/true);
  PostStart(/*watching_steps=*/false);
  AwaitStarts();
  if (plan_.begin_ticks < plan_.start_ticks) {
    // Less what rings have lost of the past since the arming.
    if (const uint64_t oldest = OldestTicks(); oldest != UINT64_MAX) {
      plan_.begin_ticks = std::max(plan_.begin_ticks, oldest);
    }
  }
  if (NowTicks() < plan_.start_ticks && Wait(TimeOf(plan_.start_ticks), ended)) return false;
  NoteStarted();
  return true;
}

bool SessionRun::WaitForStepWindow() {
  PostStart(/*watching_steps=*/true);
  AwaitStarts();
  NoteStarted();
  auto limit = Clock::time_point::max();
  if (plan_.deadline_ticks != UINT64_MAX) {
    limit = TimeOf(plan_.deadline_ticks);
  } else if (plan_.duration != absl::InfiniteDuration()) {
    limit = Clock::now() + absl::ToChronoNanoseconds(plan_.duration);
  }
  SetPhase(Phase::kWaiting, limit);
  Wait(limit, [this] { return window_opened_ || EndRequested(); });
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!window_opened_) {
      warnings_.push_back(
          plan_.steps->by_ordinal
              ? absl::StrFormat("the process had not begun its step %d, by count, when the capture "
                                "had waited for it; raise --max_duration_ms",
                                plan_.steps->first)
              : absl::StrFormat(
                    "no step with a number of %d or more began while the capture waited for it; "
                    "check that the program marks its steps (JOBSCOPE_STEP), and their numbers",
                    plan_.steps->first));
      end_ticks_ = NowTicks();
      if (!plan_.keep_zero) plan_.zero_ticks = end_ticks_;
      if (ended_by_.empty()) ended_by_ = "duration";
      return true;  // the watchers have been started and must be stopped
    }
    OpenStepWindow(window_open_ticks_, map_, &plan_);
    recording_ticks_ = plan_.start_ticks;
  }
  PostStart(/*watching_steps=*/false);
  AwaitStarts();
  return true;
}

void SessionRun::NoteStarted() {
  recording_ticks_ = plan_.start_ticks;
  for (const auto& task : tasks_) {
    if (task->abandoned() || !task->status().ok()) continue;
    recording_ticks_ = std::max(recording_ticks_, task->collector()->RecordingSince());
  }
  SessionStarted started;
  started.start_monotonic_ns = map_.ToMonotonicNs(recording_ticks_);
  if (plan_.commanded_ticks.has_value()) {
    plan_.late_ns += started.start_monotonic_ns - map_.ToMonotonicNs(plan_.start_ticks);
  }
  started.late_ns = plan_.late_ns;
  if (environment_.started) environment_.started(started);
}

void SessionRun::Record() {
  if (end_ticks_ != 0) return;  // the step window never opened
  const auto planned_end =
      plan_.deadline_ticks == UINT64_MAX ? Clock::time_point::max() : TimeOf(plan_.deadline_ticks);
  SetPhase(Phase::kRecording, planned_end);
  Wait(planned_end, [this] { return window_closed_ || EndRequested(); });

  std::lock_guard<std::mutex> lock(mutex_);
  if (clock_held_until_.has_value()) {
    end_ticks_ = *clock_held_until_;
  } else if (EndRequested()) {
    end_ticks_ = NowTicks();
  } else if (window_closed_) {
    end_ticks_ = window_close_ticks_;
    ended_by_ = "steps";
  } else {
    end_ticks_ = plan_.deadline_ticks;
    ended_by_ = "duration";
  }
}

void SessionRun::StopAndReport() {
  SetPhase(Phase::kDraining, Clock::now());
  end_ticks_ = std::max(end_ticks_, plan_.zero_ticks);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    leaving_ = ended_by_ == "shutdown";
  }
  AwaitAll(leaving_ ? kLateStartLimitLeaving : kLateStartLimit);
  for (const auto& task : tasks_) {
    if (task->armed()) task->PostStop(end_ticks_);
  }
  AwaitAll(leaving_ ? kStopLimitLeaving : kStopLimit);
  CheckClock();
  for (const auto& task : tasks_) task->PostReport();
  AwaitAll(leaving_ ? kReportLimitLeaving : kReportLimit);
  for (const auto& task : tasks_) task->Finish();
}

SessionResult SessionRun::Finish() {
  SessionResult result;
  SummaryInput input;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (cancelled_) {
      result.status = absl::CancelledError("the caller went away; the capture was dropped");
      return result;
    }
    input.ended_by = ended_by_;
    input.command = command_;
  }
  SessionOptions in_effect = options_;
  in_effect.duration = plan_.duration;
  in_effect.steps = plan_.steps;
  in_effect.store_bytes = context_->store->cap_bytes();
  input.options = &in_effect;
  input.identity = environment_.identity();
  input.uses_tsc = environment_.uses_tsc;
  input.zero_unix_ns = map_.ToUnixNs(plan_.zero_ticks);
  if (started_) input.start_unix_ns = map_.ToUnixNs(recording_ticks_);
  input.duration_ns = Nanoseconds(end_ticks_ - plan_.zero_ticks);
  input.lookback_ns = Nanoseconds(plan_.lookback_ticks());
  input.late_ns = plan_.late_ns;
  input.warnings = warnings_;
  input.absent = absent_;
  input.tasks = &tasks_;
  result.summary = MakeSummary(input);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    lost_ = result.summary.lost();
  }
  if (!AppendSummary(&result.summary, store_.get())) {
    result.status = absl::ResourceExhaustedError(
        "the store has no room for the capture's summary; ask for a larger store "
        "(JOBSCOPE_STORE_MB)");
    return result;
  }
  result.store = store_;
  return result;
}

void SessionRun::Stop(std::string_view ended_by) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (ended_by_.empty()) ended_by_ = std::string(ended_by);
  changed_.notify_all();
}

void SessionRun::Cancel() {
  std::lock_guard<std::mutex> lock(mutex_);
  cancelled_ = true;
  if (ended_by_.empty()) ended_by_ = "cancelled";
  changed_.notify_all();
}

void SessionRun::Wake() {
  std::lock_guard<std::mutex> lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

bool SessionRun::Command(StartCommand command) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (phase_ != Phase::kArmed || command_.has_value() || EndRequested()) return false;
  command_ = std::move(command);
  changed_.notify_all();
  return true;
}

void SessionRun::SkipToDelivery() { SetPhase(Phase::kDelivering, Clock::time_point::max()); }

void SessionRun::AwaitDelivery() {
  Wait(Clock::time_point::max(), [this] { return delivered_; });
}

void SessionRun::Delivered() {
  std::lock_guard<std::mutex> lock(mutex_);
  delivered_ = true;
  changed_.notify_all();
}

SessionProgress SessionRun::Progress() const {
  SessionProgress progress;
  std::vector<Collector*> collectors;
  std::optional<uint64_t> lost;
  std::shared_ptr<xspace::Store> store;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    store = store_;
    progress.state = PhaseName(static_cast<int>(phase_));
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
  std::lock_guard<std::mutex> lock(mutex_);
  busy.set_state(PhaseName(static_cast<int>(phase_)));
  if (planned_end_ != Clock::time_point::max()) {
    const auto left = std::chrono::duration_cast<milliseconds>(planned_end_ - Clock::now());
    busy.set_remaining_ms(static_cast<uint64_t>(std::max<int64_t>(0, left.count())));
  }
  return busy;
}

void SessionRun::PostStart(bool watching_steps) {
  StartRequest request;
  request.start_ticks = plan_.begin_ticks;
  request.map = map_.WithZero(plan_.zero_ticks);
  if (watching_steps) request.steps = plan_.steps;
  if (!plan_.steps.has_value()) request.end_ticks = plan_.deadline_ticks;
  request.keep_zero = plan_.keep_zero;
  for (const auto& task : tasks_) {
    if (task->status().ok() && task->collector()->WatchesSteps() == watching_steps) {
      task->PostStart(request);
    }
  }
}

uint64_t SessionRun::OldestTicks() const {
  uint64_t oldest = UINT64_MAX;
  for (const auto& task : tasks_) {
    if (!task->abandoned()) oldest = std::min(oldest, task->collector()->OldestTicks());
  }
  return std::max(oldest, past_from_ticks_);
}

void SessionRun::AwaitStarts() {
  const auto deadline = Clock::now() + kStartLimit;
  for (const auto& task : tasks_) task->AwaitPatiently(deadline);
}

void SessionRun::AwaitAll(Clock::duration limit) {
  // A process that leaves has no time for threads that are not run.
  const auto patience = leaving_ ? Clock::duration::zero() : limit / 2;
  const auto half = Clock::now() + patience;
  if (!leaving_) {
    for (const auto& task : tasks_) task->AwaitPatiently(half);
  }
  // This thread may have come late itself.
  const auto deadline = std::max(half, Clock::now()) + (limit - patience);
  for (const auto& task : tasks_) task->Await(deadline);
}

void SessionRun::SetPhase(Phase phase, Clock::time_point planned_end) {
  std::lock_guard<std::mutex> lock(mutex_);
  phase_ = phase;
  planned_end_ = planned_end;
}

bool SessionRun::EndRequested() const { return !ended_by_.empty(); }

bool SessionRun::Wait(Clock::time_point deadline, const std::function<bool()>& ended) {
  while (true) {
    const auto line = environment_.tend_line ? environment_.tend_line() : Clock::time_point::max();
    std::unique_lock<std::mutex> lock(mutex_);
    const auto until = std::min(deadline, line);
    const auto wake = [&] { return woken_ || ended(); };
    if (until == Clock::time_point::max()) {
      changed_.wait(lock, wake);  // wait_until overflows on max()
    } else {
      changed_.wait_until(lock, until, wake);
    }
    woken_ = false;
    if (ended()) return true;
    if (Clock::now() >= deadline) return false;
  }
}

uint64_t SessionRun::NowTicks() const { return detail::ReadTicks(environment_.uses_tsc); }

uint64_t SessionRun::ReadyTicks() const {
  uint64_t since_ticks = 0;
  for (const auto& task : tasks_) {
    if (task->abandoned() || !task->status().ok()) continue;
    since_ticks = std::max(since_ticks, task->collector()->RecordingSince());
  }
  const uint64_t now_ticks = NowTicks();
  return since_ticks != 0 ? std::min(since_ticks, now_ticks) : now_ticks;
}

uint64_t SessionRun::Nanoseconds(uint64_t ticks) const {
  return static_cast<uint64_t>(map_.WithZero(0).ToPs(ticks)) / 1000;
}

SessionRun::Clock::time_point SessionRun::TimeOf(uint64_t ticks) const {
  const uint64_t now_ticks = NowTicks();
  const auto now = Clock::now();
  if (ticks <= now_ticks) return now;
  const double seconds = static_cast<double>(ticks - now_ticks) / map_.ticks_per_second();
  return now + std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

}  // namespace jobscope
