// SPDX-License-Identifier: Apache-2.0
#include "server/session_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "jobscope/detail/ticks.h"
#include "server/limits.h"
#include "server/summary.h"

namespace jobscope {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Deadlines of the verbs (collectors/collector.h).
constexpr auto kArmLimit = seconds(5);
constexpr auto kStartLimit = seconds(1);
constexpr auto kStopLimit = seconds(2);
constexpr auto kReportLimit = seconds(1);

// Collectors are started this much before a commanded instant, so that they record when it comes;
// what they record before it is clipped. Waking a thread took up to 1 ms on a busy machine.
constexpr int64_t kStartLeadNs = 2'000'000;

// A rate from two samples nearer than this is too rough: at 50 ns of bracket it would be off by
// more than 1 ppm.
constexpr uint64_t kMinBaselineNs = 100'000'000;

std::chrono::nanoseconds Nanoseconds(absl::Duration duration) {
  return absl::ToChronoNanoseconds(duration);
}

}  // namespace

// The part of a session that a hanging collector may still touch after the session's end.
class SessionRun::Context : public SessionContext, public SessionEvents {
 public:
  Context(SessionRun* run, uint64_t store_bytes)
      : store(std::make_shared<xspace::Store>(store_bytes)), names(store.get()), run_(run) {}

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

  // The run ends; a collector that hangs may still call.
  void Detach() {
    std::lock_guard<std::mutex> guard(mutex_);
    run_ = nullptr;
  }

  const std::shared_ptr<xspace::Store> store;
  xspace::Names names;

 private:
  std::mutex mutex_;
  SessionRun* run_;
};

SessionRun::SessionRun(SessionOptions options, Environment environment)
    : options_(std::move(options)),
      environment_(std::move(environment)),
      context_(std::make_shared<Context>(this, options_.store_bytes)) {}

SessionResult SessionRun::Run() {
  Arm();
  FixClock();
  started_ = WaitAndStart();
  if (started_) Record();
  StopAndReport();
  SessionResult result = Finish();
  context_->Detach();
  return result;
}

void SessionRun::Arm() {
  for (const std::shared_ptr<CollectorSlot>& slot : environment_.slots) {
    const std::string name(slot->collector()->name());
    if (const Verb verb = slot->wedged_in(); verb != Verb::kNone) {
      absent_.push_back(CollectorStateOf(
          name, "wedged",
          absl::StrCat("it still hangs in the verb ", VerbName(verb), " of an earlier capture")));
      continue;
    }
    std::shared_ptr<CollectorTask> task;
    if (absl::Status status = CollectorTask::Start(slot, context_, &task); !status.ok()) {
      absent_.push_back(CollectorStateOf(name, "failed", std::string(status.message())));
      continue;
    }
    tasks_.push_back(std::move(task));
  }
  ArmRequest request;
  request.levels = options_.levels;
  request.steps = options_.steps;
  request.lookback = options_.lookback;
  request.sink = context_->store.get();
  request.names = &context_->names;
  request.events = context_.get();
  for (const auto& task : tasks_) task->PostArm(request);
  AwaitAll(kArmLimit);
}

// One affine map for the whole session (docs/trace_format.md, "Time"). Only a capture in the first
// 100 ms of a server waits here.
void SessionRun::FixClock() {
  ClockSample late = SampleClocks(environment_.uses_tsc);
  const uint64_t age_ns = late.monotonic_ns - environment_.early.monotonic_ns;
  if (age_ns < kMinBaselineNs) {
    Wait(Clock::now() + std::chrono::nanoseconds(kMinBaselineNs - age_ns), [] { return false; });
    late = SampleClocks(environment_.uses_tsc);
  }
  map_ = TickMap::FromSamples(environment_.early, late);
}

bool SessionRun::WaitAndStart() {
  // The zero is the commanded instant, the same for all workers of a run, also when this worker is
  // a little late for it.
  const uint64_t now_ticks = NowTicks();
  start_ticks_ = zero_ticks_ = now_ticks;
  if (options_.start_unix_ns.has_value()) {
    const int64_t late_ns = map_.ToUnixNs(now_ticks) - *options_.start_unix_ns;
    if (late_ns <= absl::ToInt64Nanoseconds(limits::kMaxStartAge)) {
      zero_ticks_ = map_.FromUnixNs(*options_.start_unix_ns);
    }
    late_ns_ = static_cast<uint64_t>(std::max<int64_t>(0, late_ns));
    start_ticks_ = std::max(start_ticks_, zero_ticks_);
  }

  SetPhase(Phase::kWaiting, Clock::time_point::max());
  const auto lead = std::chrono::nanoseconds(kStartLeadNs);
  if (Wait(TimeOf(start_ticks_) - lead, [this] { return EndRequested(); })) return false;

  if (options_.steps.has_value()) return WaitForStepWindow();

  if (options_.lookback > absl::ZeroDuration()) {
    // No further back than what every collector with a past still holds.
    uint64_t oldest = UINT64_MAX;
    for (const auto& task : tasks_) {
      if (!task->abandoned()) oldest = std::min(oldest, task->collector()->OldestTicks());
    }
    const double wanted = absl::ToDoubleSeconds(options_.lookback) * map_.ticks_per_second();
    const uint64_t wanted_ticks =
        wanted < static_cast<double>(zero_ticks_) ? zero_ticks_ - static_cast<uint64_t>(wanted) : 0;
    const uint64_t granted_zero = std::min(zero_ticks_, std::max(wanted_ticks, oldest));
    lookback_ticks_ = zero_ticks_ - granted_zero;
    zero_ticks_ = granted_zero;
  }
  const uint64_t begin_ticks = lookback_ticks_ > 0 ? zero_ticks_ : start_ticks_;
  PostStart(/*watching_steps=*/true, begin_ticks);
  PostStart(/*watching_steps=*/false, begin_ticks);
  AwaitAll(kStartLimit);
  TellStarted();
  return true;
}

// The zero is the opening of the window: counted from the arming, the first event could lie hours
// into the timeline.
bool SessionRun::WaitForStepWindow() {
  PostStart(/*watching_steps=*/true, start_ticks_);
  AwaitAll(kStartLimit);
  TellStarted();
  const auto limit = options_.duration == absl::InfiniteDuration()
                         ? Clock::time_point::max()
                         : Clock::now() + Nanoseconds(options_.duration);
  SetPhase(Phase::kWaiting, limit);
  Wait(limit, [this] { return window_opened_ || EndRequested(); });
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!window_opened_) {
      warnings_.push_back(absl::StrFormat(
          "no step with a number of %d or more began while the capture waited for it; check that "
          "the program marks its steps (JOBSCOPE_STEP), and their numbers",
          options_.steps->first));
      end_ticks_ = zero_ticks_ = NowTicks();
      if (ended_by_.empty()) ended_by_ = "duration";
      return true;  // the watchers have been started and must be stopped
    }
    zero_ticks_ = start_ticks_ = window_open_ticks_;
  }
  PostStart(/*watching_steps=*/false, zero_ticks_);
  AwaitAll(kStartLimit);
  return true;
}

void SessionRun::Record() {
  if (end_ticks_ != 0) return;  // the step window never opened
  auto planned_end = Clock::time_point::max();
  uint64_t planned_end_ticks = UINT64_MAX;
  if (options_.duration != absl::InfiniteDuration()) {
    planned_end_ticks =
        start_ticks_ +
        static_cast<uint64_t>(absl::ToDoubleSeconds(options_.duration) * map_.ticks_per_second());
    planned_end = TimeOf(planned_end_ticks);
  }
  SetPhase(Phase::kRecording, planned_end);
  Wait(planned_end, [this] { return window_closed_ || EndRequested(); });

  std::lock_guard<std::mutex> lock(mutex_);
  if (EndRequested()) {
    end_ticks_ = NowTicks();
  } else if (window_closed_) {
    end_ticks_ = window_close_ticks_;
    ended_by_ = "steps";
  } else {
    end_ticks_ = planned_end_ticks;
    ended_by_ = "duration";
  }
  end_ticks_ = std::max(end_ticks_, zero_ticks_);
}

void SessionRun::StopAndReport() {
  SetPhase(Phase::kDraining, Clock::now());
  if (end_ticks_ == 0) end_ticks_ = zero_ticks_;
  for (const auto& task : tasks_) {
    if (task->status().ok()) task->PostStop(end_ticks_);
  }
  AwaitAll(kStopLimit);
  for (const auto& task : tasks_) task->PostReport();
  AwaitAll(kReportLimit);
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
  }
  input.options = &options_;
  input.identity = environment_.identity;
  input.uses_tsc = environment_.uses_tsc;
  input.zero_unix_ns = map_.ToUnixNs(zero_ticks_);
  const TickMap from_zero = map_.WithZero(zero_ticks_);
  input.duration_ns = static_cast<uint64_t>(from_zero.ToPs(end_ticks_)) / 1000;
  input.lookback_ns = static_cast<uint64_t>(from_zero.ToPs(zero_ticks_ + lookback_ticks_)) / 1000;
  input.late_ns = late_ns_;
  input.warnings = warnings_;
  input.absent = absent_;
  input.tasks = &tasks_;
  result.summary = MakeSummary(input);
  const std::string encoded = result.summary.SerializeAsString();
  if (!context_->store->Append(xspace::ItemKind::kSummary, encoded)) {
    result.status = absl::ResourceExhaustedError(
        "the store has no room for the capture's summary; ask for a larger store "
        "(JOBSCOPE_STORE_MB)");
    return result;
  }
  result.store = context_->store;
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

v1::Busy SessionRun::Describe() const {
  static constexpr const char* kPhaseNames[] = {"arming", "waiting", "recording", "draining"};
  v1::Busy busy;
  busy.set_session_id(options_.session_id);
  busy.set_peer(options_.peer);
  std::lock_guard<std::mutex> lock(mutex_);
  busy.set_state(kPhaseNames[static_cast<int>(phase_)]);
  if (planned_end_ != Clock::time_point::max()) {
    const auto left = std::chrono::duration_cast<milliseconds>(planned_end_ - Clock::now());
    busy.set_remaining_ms(static_cast<uint64_t>(std::max<int64_t>(0, left.count())));
  }
  return busy;
}

void SessionRun::TellStarted() {
  if (environment_.started) environment_.started();
}

void SessionRun::PostStart(bool watching_steps, uint64_t begin_ticks) {
  StartRequest request;
  request.start_ticks = begin_ticks;
  request.map = map_.WithZero(zero_ticks_);
  for (const auto& task : tasks_) {
    if (task->status().ok() && task->collector()->WatchesSteps() == watching_steps) {
      task->PostStart(request);
    }
  }
}

void SessionRun::AwaitAll(Clock::duration limit) {
  const auto deadline = Clock::now() + limit;
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

SessionRun::Clock::time_point SessionRun::TimeOf(uint64_t ticks) const {
  const uint64_t now_ticks = NowTicks();
  const auto now = Clock::now();
  if (ticks <= now_ticks) return now;
  const double seconds = static_cast<double>(ticks - now_ticks) / map_.ticks_per_second();
  return now + std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

}  // namespace jobscope
