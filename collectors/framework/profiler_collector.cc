// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/profiler_collector.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "collectors/framework/profiler_session.py.h"
#include "collectors/inferred/inferred_steps.h"
#include "collectors/python/bridge/api.h"
#include "collectors/python/bridge/interpreter.h"
#include "common/clock/monotonic.h"
#include "common/text/utf8.h"
#include "common/xspace/wire/absl_view.h"
#include "jobscope/detail/ticks.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope::framework {
namespace {

// Bounds how late a window's end becomes known.
constexpr absl::Duration kFresh = absl::Milliseconds(300);
// Time limit, within the 1 s of Start: a thread that gets the GIL later must not begin any more.
constexpr uint64_t kStartLimitNs = 800'000'000;
constexpr int kClockTries = 20;
// Interval of the check whether the program exits; it keeps its interpreter until its recording is
// in the trace.
constexpr absl::Duration kLook = absl::Milliseconds(50);
// Time limit for the exit hook, if it coincides with Stop.
constexpr absl::Duration kHookTimeout = absl::Milliseconds(1500);

// A collector with `has_the_loop` takes part in this session.
std::atomic<bool> g_loop_is_found{false};

}  // namespace

ProfilerCollector::ProfilerCollector(ProfilerKind kind, FrameworkEnvironment environment)
    : kind_(std::move(kind)),
      environment_(std::move(environment)),
      handover_(ProfilerHandover::Make()) {
  last_.state = CollectorState::kOff;
  last_.reason = "looked for when a capture begins";
  last_.absent = true;
}

ProfilerCollector::~ProfilerCollector() = default;

CollectorReport ProfilerCollector::Describe() const {
  const MutexLock lock(&mutex_);
  return last_;
}

void ProfilerCollector::Off(std::string reason) {
  report_.state = CollectorState::kOff;
  report_.reason = std::move(reason);
  const MutexLock lock(&mutex_);
  last_ = report_;
}

std::string ProfilerCollector::WhyOff(const ArmRequest& request) const {
  if (!request.recording.frameworks.Takes(kind_.name)) return "not requested (--frameworks)";
  if (request.recording.host_tracer_level <= 0) return "host_tracer_level is 0";
  return python::SurelyAbsent() ? "there is no Python in this process" : "";
}

absl::Status ProfilerCollector::Fail(std::string reason) {
  report_.state = CollectorState::kFailed;
  report_.reason = std::move(reason);
  const MutexLock lock(&mutex_);
  last_ = report_;
  return absl::FailedPreconditionError(report_.reason);
}

absl::Status ProfilerCollector::Arm(const ArmRequest& request) {
  request_ = request;
  report_ = {};
  armed_ = false;
  recording_ = false;
  waiting_.reset();
  merge_.reset();
  paused_ = absl::ZeroDuration();
  trouble_.clear();
  thread_lines_.Clear();
  lost_so_far_.store(0, std::memory_order_relaxed);
  handover_->Reset();
  if (kind_.has_the_loop) g_loop_is_found.store(false);

  if (std::string why = WhyOff(request); !why.empty()) {
    Off(std::move(why));
    return absl::OkStatus();
  }
  const absl::StatusOr<const python::Interpreter*> interpreter = python::Interpreter::Find();
  if (!interpreter.ok()) {
    if (absl::IsUnimplemented(interpreter.status())) {
      return Fail(std::string(interpreter.status().message()));
    }
    Off(std::string(interpreter.status().message()));
    return absl::OkStatus();
  }
  if (!(*interpreter)->HasModule(kind_.module)) {
    report_.absent = true;
    Off(absl::StrCat("this process has not loaded ", kind_.origin));
    return absl::OkStatus();
  }
  if (script_ == nullptr) {
    absl::StatusOr<std::unique_ptr<python::Script>> loaded = python::Script::Load(
        *interpreter, absl::StrCat("jobscope_", kind_.name),
        absl::StrCat(xspace::AbslView(kind_.script), xspace::AbslView(python::kProfilerSessionPy)),
        handover_->Functions());
    if (!loaded.ok()) return Fail(std::string(loaded.status().message()));
    script_ = *std::move(loaded);
    std::vector<python::Value> descriptors;
    descriptors.emplace_back(int64_t{handover_->quiet_fd()});
    for (const int fd : handover_->memory_fds()) descriptors.emplace_back(int64_t{fd});
    if (const auto used = Call("use", descriptors); !used.ok()) {
      script_.reset();
      return Fail(std::string(used.status().message()));
    }
  }
  const absl::StatusOr<python::Value> unfit = Call("unfit");
  if (!unfit.ok()) return Fail(std::string(unfit.status().message()));
  if (const auto* reason = std::get_if<std::string>(&*unfit)) {
    Off(*reason);
    return absl::OkStatus();
  }
  armed_ = true;
  if (kind_.has_the_loop) g_loop_is_found.store(true);
  const MutexLock lock(&mutex_);
  last_ = report_;
  return absl::OkStatus();
}

absl::StatusOr<python::Value> ProfilerCollector::Call(
    const char* function, const std::vector<python::Value>& arguments) const {
  const ProfilerHandover::Call call(handover_.get());
  if (!call) return absl::UnavailableError("the program is ending");
  return script_->Call(function, arguments);
}

uint64_t ProfilerCollector::Now() const { return detail::ReadTicks(environment_.uses_tsc); }

uint64_t ProfilerCollector::Ticks(absl::Duration duration) const {
  return static_cast<uint64_t>(absl::ToDoubleSeconds(duration) * start_.map.ticks_per_second());
}

absl::Status ProfilerCollector::Start(const StartRequest& request) {
  if (!armed_) return absl::OkStatus();
  start_ = request;
  ForeignOptions options;
  options.origin = kind_.origin;
  options.segment_source = kind_.segment_source;
  const bool others_loop = !kind_.has_the_loop && g_loop_is_found.load();
  if (!others_loop && InfersSteps()) options.step_calls = kind_.step_calls;
  options.drop_gpu_planes = environment_.traces_gpus && environment_.traces_gpus(request_);
  options.thread_of = [this](int64_t line_id) { return thread_lines_.Find(line_id); };
  merge_ = std::make_unique<ForeignXSpace>(request_.sink, request_.names, std::move(options));
  if (absl::Status begun = Begin(); !begun.ok()) {
    armed_ = false;
    return Fail(std::string(begun.message()));
  }
  return absl::OkStatus();
}

absl::Status ProfilerCollector::Begin() {
  const bool no_device = request_.recording.device_tracer_level <= 0 ||
                         (environment_.traces_gpus && environment_.traces_gpus(request_));
  piece_begin_ = SampleClocks(environment_.uses_tsc, kClockTries);
  std::vector<python::Value> arguments;
  for (const int64_t argument :
       {int64_t{request_.recording.host_tracer_level}, int64_t{no_device ? 0 : 1},
        static_cast<int64_t>(MonotonicNow() + kStartLimitNs),
        static_cast<int64_t>(request_.store_bytes)}) {
    arguments.emplace_back(argument);
  }
  const absl::StatusOr<python::Value> refused = Call("start", arguments);
  if (!refused.ok()) return refused.status();
  if (const auto* reason = std::get_if<std::string>(&*refused)) {
    return absl::FailedPreconditionError(*reason);
  }
  recording_ = true;
  LearnThreads();
  return absl::OkStatus();
}

// Reads the program's Python threads. For other threads, only one of the two numbers is known.
void ProfilerCollector::LearnThreads() {
  const absl::StatusOr<python::Value> answer = Call("threads");
  if (!answer.ok()) return;
  if (const auto* text = std::get_if<std::string>(&*answer)) thread_lines_.Add(*text);
}

absl::Duration ProfilerCollector::Recorded() const {
  return absl::Seconds(static_cast<double>(Now() - piece_begin_.ticks) /
                       start_.map.ticks_per_second());
}

absl::StatusOr<ProfilerCollector::Piece> ProfilerCollector::Take() {
  recording_ = false;
  const absl::Time begin = SteadyNow();
  const absl::Duration recorded = Recorded();
  LearnThreads();
  const bool ended_by_itself = handover_->complete();
  const absl::StatusOr<python::Value> answer = Call("stop");
  if (!ended_by_itself) {
    // Also after a Stop that was too late for its session, to improve the next estimate.
    piece_length_.NoteHandover(SteadyNow() - begin, recorded);
  }
  Piece piece;
  piece.before = piece_begin_;
  piece.after = SampleClocks(environment_.uses_tsc, kClockTries);
  // While Python shuts down, its exit hook hands over the session.
  std::optional<absl::StatusOr<MappedXSpace>> taken =
      handover_->Claim(handover_->shutting_down() ? kHookTimeout : absl::ZeroDuration());
  if (!taken.has_value()) {
    if (!answer.ok()) return answer.status();
    return absl::InternalError("it handed over nothing");
  }
  if (!taken->ok()) {
    handover_->Done();
    return taken->status();
  }
  piece.xspace = **std::move(taken);
  // One that ended by itself is shorter than what is known of it.
  if (!ended_by_itself) piece_length_.NoteSize(piece.xspace.bytes().size(), recorded);
  return piece;
}

bool ProfilerCollector::EndsSoon(uint64_t now_ticks) const {
  return start_.end_ticks != UINT64_MAX &&
         now_ticks + Ticks(piece_length_.For(request_.store_bytes) / 2) > start_.end_ticks;
}

void ProfilerCollector::TakePiece() {
  // A recording that ends with the program lies completely before a planned end.
  const bool told_late = !handover_->shutting_down() || start_.end_ticks == UINT64_MAX;
  absl::StatusOr<Piece> piece = Take();
  if (!piece.ok()) {
    trouble_ = std::string(piece.status().message());
    return;
  }
  waiting_ = *std::move(piece);
  waiting_->merge_ticks = Now() + (told_late ? Ticks(kFresh) : 0);
}

absl::Duration ProfilerCollector::Drain() {
  if (waiting_.has_value() && Now() >= waiting_->merge_ticks) MergeWaiting(start_.end_ticks);
  if (!recording_) return waiting_.has_value() ? kLook : absl::InfiniteDuration();
  if (waiting_.has_value()) return kLook;
  if (handover_->complete()) {  // by the exit hook, or because the program starts its own
    TakePiece();
    return absl::ZeroDuration();
  }
  const uint64_t now = Now();
  const absl::Duration length = piece_length_.For(request_.store_bytes);
  if (now < piece_begin_.ticks + Ticks(length) || EndsSoon(now)) return kLook;

  const absl::Time begin = SteadyNow();
  TakePiece();
  if (!waiting_.has_value()) return absl::InfiniteDuration();
  if (absl::Status begun = Begin(); !begun.ok() && !handover_->shutting_down()) {
    trouble_ = absl::StrCat("it ends early: ", std::string(begun.message()));
  }
  paused_ += SteadyNow() - begin;
  return kLook;
}

void ProfilerCollector::MergeWaiting(uint64_t end_ticks) {
  if (environment_.has_steps) {
    merge_->set_drop_steps(environment_.has_steps(start_.start_ticks, end_ticks));
  }
  ForeignWindow window;
  window.start_ps = start_.map.ToPs(start_.start_ticks);
  if (end_ticks != UINT64_MAX) window.end_ps = start_.map.ToPs(end_ticks);
  {
    // Ended and unmapped even if merging throws: it would be merged twice.
    const absl::Cleanup done = [this] { handover_->Done(); };
    const Piece piece = *std::exchange(waiting_, std::nullopt);
    const absl::Status merged = merge_->Merge(
        piece.xspace.bytes(), ForeignTime(start_.map, piece.before, piece.after), window);
    if (!merged.ok()) trouble_ = std::string(merged.message());
  }
  uint64_t lost = 0;
  for (const auto& [cause, events] : merge_->account().lost_by_cause) lost += events;
  lost_so_far_.store(lost, std::memory_order_relaxed);
}

absl::Status ProfilerCollector::Stop(uint64_t end_ticks) {
  armed_ = false;
  if (kind_.has_the_loop) g_loop_is_found.store(false);
  if (merge_ == nullptr) return absl::OkStatus();
  const uint64_t end = std::min(end_ticks, start_.end_ticks);
  if (waiting_.has_value()) MergeWaiting(end);
  if (recording_) {
    absl::StatusOr<Piece> piece = Take();
    if (piece.ok()) {
      waiting_ = *std::move(piece);
      MergeWaiting(end);
    } else {
      trouble_ = std::string(piece.status().message());
    }
  }
  merge_->Finish();
  CloseAccount();
  merge_.reset();
  return absl::OkStatus();
}

void ProfilerCollector::CloseAccount() {
  const ForeignAccount& account = merge_->account();
  report_.attempted = account.attempted;
  report_.events = account.events;
  report_.outside = account.outside;
  report_.lost_by_cause = account.lost_by_cause;
  report_.steps = account.steps;
  report_.warnings = account.warnings;
  if (!account.steps_marked) report_.steps_inferred_from = account.inferred_from;
  if (!account.inferred_from.empty()) {
    std::string scratch;
    report_.warnings.push_back(absl::StrCat(
        "nothing marks steps: they were inferred from ",
        xspace::AbslView(ToUtf8(account.inferred_from, &scratch)),
        ", each from one call to the next; mark steps (jobscope.step) if that is not the loop, and "
        "for --steps=N"));
  }
  if (paused_ >= absl::Milliseconds(1)) {
    report_.warnings.push_back(
        absl::StrFormat("%s recorded nothing for %.1f ms in all, in which it handed over what it "
                        "had recorded; `lost` does not count the events of that time",
                        kind_.origin, absl::ToDoubleMilliseconds(paused_)));
  }
  if (const std::string interruption = handover_->interruption(); !interruption.empty()) {
    trouble_ = trouble_.empty() ? interruption : absl::StrCat(interruption, "; ", trouble_);
  }
  if (!trouble_.empty()) {
    report_.state = account.attempted > 0 ? CollectorState::kDegraded : CollectorState::kFailed;
    report_.reason = trouble_;
  }
  if (account.lost_by_cause.empty()) return;
  v1::Loss loss;
  loss.set_collector(kind_.name);
  Append(account.lost_by_cause, loss.mutable_causes());
  (void)request_.sink->Append(xspace::ItemKind::kLoss, loss.SerializeAsString());
}

CollectorReport ProfilerCollector::Report() {
  const MutexLock lock(&mutex_);
  last_.state = report_.state;
  last_.reason = report_.reason;
  last_.absent = report_.absent;
  return report_;
}

}  // namespace jobscope::framework
