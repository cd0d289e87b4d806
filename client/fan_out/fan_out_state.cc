// SPDX-License-Identifier: Apache-2.0
#include "client/fan_out/fan_out_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock/monotonic.h"
#include "common/process/pid_space.h"

namespace jobscope {
namespace {

// fsync of several files at once costs little more than of one; more threads than this gain
// nothing.
constexpr size_t kWriteThreads = 8;

constexpr absl::Duration kStopTimeout = absl::Seconds(5);
// Longest recording of a stock worker that was not asked for by --protocol=tensorflow: a million
// events are 105 MB, and its process aborts if the trace exceeds 2 GiB.
constexpr absl::Duration kMaxStockDuration = absl::Seconds(10);
// Per worker: a flapping connection must not fill the manifest.
constexpr size_t kMaxWarnings = 50;

size_t WriteThreads(size_t workers, size_t max_parallel) {
  return std::clamp(std::min(workers, max_parallel), size_t{1}, kWriteThreads);
}

}  // namespace

FanOutState::FanOutState(std::vector<Endpoint> endpoints, std::vector<std::string> stems,
                         FanOutOptions options, WorkerFactory factory, DeliveryWriter writer,
                         Progress* progress)
    : options_(std::move(options)),
      factory_(std::move(factory)),
      writer_(std::move(writer)),
      progress_(progress),
      roster_(std::move(endpoints), std::move(stems)),
      start_(options_, &roster_, progress, this),
      backoff_(options_.times),
      pool_(WriteThreads(roster_.size(), options_.max_parallel)) {}

void FanOutState::Connect(size_t index) {
  const absl::Time now = SteadyNow();
  if (roster_[index].stage == Stage::kQueued) start_.OnAsked(now);
  roster_.BeginAttempt(index, now + StallTime());
  Slot& slot = roster_[index];
  slot.asked = now;
  slot.described = false;
  slot.clock_id.clear();
  slot.pid.reset();
  slot.arm_clock.reset();
  slot.clock.reset();
  slot.steps.reset();
  slot.window.reset();
  slot.max_duration = absl::InfiniteDuration();
  slot.max_lookback = absl::InfiniteDuration();
  slot.progress.Clear();
  slot.started.reset();
  slot.result.account.warnings.clear();
  Ask(index, options_.protocol.value_or(Protocol::kNative));
}

void FanOutState::Ask(size_t index, Protocol protocol) {
  Slot& slot = roster_[index];
  slot.streams = protocol == Protocol::kNative;
  slot.result.account.protocol = protocol;
  slot.worker = factory_(slot.endpoint, protocol);
  slot.worker->Describe(slot.asked + options_.times.connect - SteadyNow(),
                        [this, index, protocol, post = Letters(index)](
                            const grpc::Status& status, const v1::DescribeResponse& response) {
                          post([this, index, protocol, status, response] {
                            // The answer to this attempt's other question arrived too late.
                            if (roster_[index].streams != (protocol == Protocol::kNative)) return;
                            OnDescribed(index, status, response);
                          });
                        });
}

void FanOutState::OnDescribed(size_t index, const grpc::Status& status,
                              v1::DescribeResponse response) {
  Slot& slot = roster_[index];
  if (slot.stage != Stage::kConnecting) return;
  ManifestWorker& account = slot.result.account;
  const bool stock = status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
  if (!status.ok() && !stock) {
    account.protocol.reset();
    RetryOrFinish(index, JudgeDescribe(status, slot.worker->connected(), options_.times.connect),
                  absl::ZeroDuration());
    return;
  }
  // Not of a silent address: its time limit would hold up the others.
  usual_answer_ += (SteadyNow() - slot.asked - usual_answer_) / 8;
  if (status.ok()) {
    if (const std::optional<size_t> twin = Twin(index, response)) {
      FillFromDescription(response, &account);
      account.busy.reset();
      account.same_as = roster_[*twin].endpoint.address;
      Finish(index, {Outcome::kDuplicate, Phase::kDescribe,
                     absl::StrCat("is the process of ", account.same_as, " (pid ",
                                  response.identity().pid(), " on ", account.host,
                                  "): recorded once, under that address"),
                     std::nullopt});
      return;
    }
    slot.described = true;
    slot.clock_id = response.clock_id();
    if (!PidSpace().empty() && response.pid_space() == PidSpace()) {
      slot.pid = response.identity().pid();
    }
    FillFromDescription(response, &account);
    account.busy.reset();
    account.current_step.reset();
    account.step_time_ms.reset();
    account.steps_inferred.reset();  // a past state; the trace will say what it contains
    account.steps_source.clear();
    const uint64_t limit_ms = response.limits().max_duration_ms();
    if (limit_ms > 0) {
      slot.max_duration = absl::Milliseconds(std::min<uint64_t>(limit_ms, INT64_MAX));
    }
    if (response.limits().max_lookback_ms() > 0) {
      slot.max_lookback =
          absl::Milliseconds(std::min<uint64_t>(response.limits().max_lookback_ms(), INT64_MAX));
    }
    if (!options_.steps.has_value() && options_.duration > slot.max_duration) {
      Finish(index, {Outcome::kRefused, Phase::kDescribe,
                     absl::StrCat("this worker records for at most ", limit_ms,
                                  " ms; lower --duration_ms"),
                     std::nullopt});
      return;
    }
    if (response.has_busy()) {
      RetryOrFinish(index,
                    {Outcome::kBusy, Phase::kDescribe, HeldBy(response.busy()), std::nullopt},
                    absl::Milliseconds(response.busy().remaining_ms()));
      return;
    }
  }
  if (slot.streams && (stock || !response.streams())) {
    FallBack(index);
    return;
  }
  Arm(index);
}

std::optional<size_t> FanOutState::Twin(size_t index, const v1::DescribeResponse& response) {
  // Process ids are reused, and equal in many containers.
  if (response.identity().pid() <= 0 || response.start_unix_ns() == 0) return std::nullopt;
  const std::string process =
      absl::StrCat(response.identity().host(), "\n", response.pid_space(), "\n",
                   response.identity().pid(), "\n", response.start_unix_ns());
  const size_t keeper = processes_.emplace(process, index).first->second;
  if (keeper == index) return std::nullopt;
  return keeper;
}

// The worker does not speak the native protocol: asks again, over the connection on which its trace
// will arrive.
void FanOutState::FallBack(size_t index) {
  if (options_.protocol == Protocol::kNative) {
    roster_[index].result.account.protocol.reset();
    Finish(index, {Outcome::kRefused, Phase::kDescribe,
                   "--protocol=native, but this worker speaks tensorflow.ProfilerService only; "
                   "leave --protocol out",
                   std::nullopt});
    return;
  }
  const bool stock = !roster_[index].described;
  if (stock && options_.duration > kMaxStockDuration) {
    roster_[index].result.account.protocol.reset();
    // That protocol, for all workers of a capture, excludes these flags.
    const bool native_only = options_.steps.has_value() || options_.lookback > absl::ZeroDuration();
    Finish(index, {Outcome::kRefused, Phase::kDescribe,
                   absl::StrCat("a stock worker's process aborts if its trace exceeds 2 GiB: lower "
                                "--duration_ms to ",
                                absl::ToInt64Milliseconds(kMaxStockDuration),
                                native_only ? ""
                                            : ", or accept that risk in a capture of this worker "
                                              "alone, with --protocol=tensorflow"),
                   std::nullopt});
    return;
  }
  std::string off = "its clock is not measured, its data are lost if it dies";
  if (stock) absl::StrAppend(&off, ", its process aborts if its trace exceeds 2 GiB");
  if (options_.steps.has_value()) {
    absl::StrAppend(&off, ", it cannot record --steps (recorded for --duration_ms=",
                    absl::ToInt64Milliseconds(options_.duration), ")");
  }
  if (options_.lookback > absl::ZeroDuration()) absl::StrAppend(&off, ", and has no --lookback_ms");
  Warn(index, absl::StrCat("does not speak the native protocol: ", off));
  Ask(index, Protocol::kTensorflow);
}

void FanOutState::Arm(size_t index) {
  Slot& slot = roster_[index];
  if (!slot.streams && options_.duration <= absl::ZeroDuration()) {
    Finish(index, {Outcome::kRefused, Phase::kArm,
                   "--duration_ms=0 requests events from before the start, which requires the "
                   "native protocol; this worker does not speak it",
                   std::nullopt});
    return;
  }
  roster_.Move(index, Stage::kArming);
  ArmCall call;
  call.session_id = options_.session_id;
  call.file_stem = slot.stem;
  call.repository_root = options_.repository_root;
  call.recording = options_.recording;
  call.lookback = std::min(options_.lookback, slot.max_lookback);
  call.by_steps = options_.steps.has_value();
  call.timeout = options_.times.arm;
  WorkerEvents events;
  const auto post = Letters(index);
  events.armed = [this, index, post](const grpc::Status& status, const v1::Armed& armed) {
    post([this, index, status, armed, at_ns = MonotonicNow()] {
      OnArmed(index, status, armed, at_ns);
    });
  };
  events.started = [this, index, post](const v1::Started& started) {
    post([this, index, started] { OnStarted(index, started); });
  };
  events.progress = [this, index, post](const v1::Progress& progress) {
    post([this, index, progress, at_ns = MonotonicNow()] { OnProgress(index, progress, at_ns); });
  };
  events.note = [this, index, post](const std::string& text) {
    post([this, index, text] { OnNote(index, text); });
  };
  events.ended = [this, index, post](const grpc::Status& status,
                                     std::unique_ptr<Delivery> delivery) {
    post([this, index, status, delivery = std::move(delivery)]() mutable {
      OnEnded(index, status, std::move(delivery));
    });
  };
  slot.worker->Arm(call, std::move(events));
}

void FanOutState::OnArmed(size_t index, const grpc::Status& status, const v1::Armed& armed,
                          uint64_t at_ns) {
  Slot& slot = roster_[index];
  if (slot.stage != Stage::kArming) return;
  if (!status.ok()) {
    RetryOrFinish(index, JudgeCapture(status, Moment::kBeforeStart), absl::ZeroDuration());
    return;
  }
  slot.arm_clock = slot.worker->arm_clock();
  slot.lookback_ns = armed.lookback_ns();
  if (armed.has_steps()) slot.steps = armed.steps();
  slot.steps_seen_ns = at_ns;
  if (armed.collectors_size() > 0) FillCollectors(armed.collectors(), &slot.result.account);
  roster_.Move(index, Stage::kArmed);
  start_.OnArmed(index, SteadyNow());
}

void FanOutState::RetryOrFinish(size_t index, WorkerOutcome outcome, absl::Duration at_least) {
  Slot& slot = roster_[index];
  if (interrupted_ || !IsWorthRetrying(outcome.kind) ||
      slot.attempt - slot.rearms >= options_.attempts) {
    Finish(index, std::move(outcome));
    return;
  }
  slot.worker.reset();
  // If the worker says when it will be free, asks again right after that.
  const absl::Duration known = std::min(at_least, options_.times.max_backoff);
  roster_.BackOff(index, SteadyNow() + std::max(backoff_.After(slot.attempt), known));
  slot.result.outcome = std::move(outcome);
}

void FanOutState::Warn(size_t index, std::string text) {
  std::vector<std::string>& warnings = roster_[index].result.account.warnings;
  if (warnings.size() < kMaxWarnings) warnings.push_back(std::move(text));
}

void FanOutState::OnStarted(size_t index, const v1::Started& started) {
  Slot& slot = roster_[index];
  if (slot.stage != Stage::kRecording) return;
  slot.started = started;
  slot.result.account.late_ns = started.late_ns();
}

void FanOutState::OnProgress(size_t index, v1::Progress progress, uint64_t at_ns) {
  Slot& slot = roster_[index];
  if (slot.stage == Stage::kWriting || slot.stage == Stage::kDone) return;
  tally_.OnProgress(slot.progress, progress);
  if (progress.has_steps()) {
    slot.steps = progress.steps();
    slot.steps_seen_ns = at_ns;
  }
  slot.progress = std::move(progress);
}

void FanOutState::OnNote(size_t index, const std::string& text) {
  progress_->Line(absl::StrCat(roster_[index].endpoint.address, ": ", text));
  Warn(index, text);
}

void FanOutState::OnEnded(size_t index, const grpc::Status& status,
                          std::unique_ptr<Delivery> delivery) {
  Slot& slot = roster_[index];
  const bool recording = slot.stage == Stage::kRecording;
  if (!recording && slot.stage != Stage::kArmed && slot.stage != Stage::kSyncing &&
      slot.stage != Stage::kSynced) {
    return;
  }
  if (delivery == nullptr) {
    const absl::Time now = SteadyNow();
    if (!recording && start_.IsHolding() && !interrupted_ &&
        status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      // A worker limits how long it stays armed. One that waits longer, for a delayed start or a
      // distant step, is armed again; that ends with the waiting.
      ++slot.rearms;
      slot.worker.reset();
      roster_.BackOff(index, now + backoff_.After(1));
      return;
    }
    const Moment moment = !recording || now < slot.start ? Moment::kBeforeStart
                          : now < slot.end               ? Moment::kRecording
                                                         : Moment::kAfterEnd;
    WorkerOutcome outcome = JudgeCapture(status, moment);
    const bool stock = !slot.streams && !slot.described;
    if (stock && moment == Moment::kAfterEnd && outcome.kind == Outcome::kDied) {
      absl::StrAppend(&outcome.reason,
                      "; a stock worker's process aborts if its trace exceeds 2 GiB: record for a "
                      "shorter time, or at a lower level");
    }
    if (slot.stopped && outcome.kind != Outcome::kBusy) {
      outcome.reason = absl::StrCat("interrupted: ", outcome.reason);
    }
    RetryOrFinish(index, std::move(outcome), absl::ZeroDuration());
    return;
  }
  roster_.Move(index, Stage::kWriting);
  pool_.Run([this, index, post = Letters(index), account = slot.result.account,
             delivery = std::move(delivery)]() mutable {
    WorkerOutcome outcome = writer_(index, delivery.get(), &account);
    // Frees its file or memory before the next one is written.
    delivery.reset();
    post([this, index, outcome = std::move(outcome), account = std::move(account)]() mutable {
      OnWritten(index, std::move(outcome), std::move(account));
    });
  });
}

void FanOutState::OnWritten(size_t index, WorkerOutcome outcome, ManifestWorker account) {
  Slot& slot = roster_[index];
  slot.result.account = std::move(account);
  if (slot.streams && !slot.clock.has_value()) slot.result.account.aligned = false;
  Finish(index, std::move(outcome));
}

void FanOutState::Finish(size_t index, WorkerOutcome outcome) {
  Slot& slot = roster_[index];
  tally_.OnFinished(outcome.kind);
  if (!IsDelivery(outcome.kind)) {
    progress_->Line(absl::StrCat(slot.endpoint.address, ": ", Name(outcome.kind), " (",
                                 Name(outcome.phase), "): ", outcome.reason));
    // Counts of a missing trace would enter the totals.
    slot.result.account.events.reset();
    slot.result.account.lost.reset();
  }
  slot.result.outcome = std::move(outcome);
  slot.result.account.attempts = slot.attempt;
  roster_.Move(index, Stage::kDone);
  slot.worker.reset();  // cancels what is in flight
}

void FanOutState::FinishUnstarted(const WorkerOutcome& outcome) {
  for (size_t i = 0; i < roster_.size(); ++i) {
    switch (roster_[i].stage) {
      case Stage::kRecording:
      case Stage::kWriting:
      case Stage::kDone:
        break;
      default:
        Finish(i, outcome);
    }
  }
}

void FanOutState::OnInterrupt() {
  if (interrupted_) return;
  interrupted_ = true;
  progress_->Line("interrupted: stopping and keeping the data (once more to exit at once)");
  const absl::Time now = SteadyNow();
  for (size_t i = 0; i < roster_.size(); ++i) {
    Slot& slot = roster_[i];
    switch (slot.stage) {
      case Stage::kQueued:
      case Stage::kConnecting:
      case Stage::kBackingOff:
        Finish(i, {Outcome::kFailed, Phase::kConnect, "interrupted before anything was recorded",
                   std::nullopt});
        break;
      case Stage::kArming:
      case Stage::kArmed:
      case Stage::kSyncing:
      case Stage::kSynced:
        Finish(i, {Outcome::kFailed, Phase::kArm, "interrupted before anything was recorded",
                   std::nullopt});
        break;
      case Stage::kRecording:
        if (now < slot.end) {
          slot.stopped = true;
          roster_.SetEnd(i, now);
          slot.worker->Stop(options_.session_id, kStopTimeout, [](const grpc::Status&, bool) {});
        }
        break;
      case Stage::kWriting:
      case Stage::kDone:
        break;
    }
  }
}

// Scales with the usual answer time: a worker that is slow because this machine is busy does not
// stall.
absl::Duration FanOutState::StallTime() const {
  return std::max(options_.times.stall, 2 * usual_answer_);
}

// Starts the thread that will write the first trace, while there is time.
void FanOutState::OnStartChosen() {
  pool_.Run([] {});
}

// Computed for the progress line that is due, not for each letter.
std::optional<StepsWanted> FanOutState::WantedSteps(absl::Time now) const {
  if (!start_.facts().steps.has_value() || !progress_->IsDue(now)) return std::nullopt;
  return options_.steps;
}

void FanOutState::Wake(absl::Time now) {
  start_.MeasureClocks(now);
  while (roster_.attempts(now) < options_.max_parallel) {
    const auto next = roster_.next_wake();
    if (!next.has_value() || next->first > now) break;
    Connect(next->second);
  }
  for (; next_queued_ < roster_.size() && roster_.attempts(now) < options_.max_parallel;
       ++next_queued_) {
    if (roster_[next_queued_].stage == Stage::kQueued) Connect(next_queued_);
  }
}

absl::Time FanOutState::NextWake(absl::Time now) const {
  absl::Time next = now + progress_->period();
  const auto consider = [&next, now](absl::Time time) {
    // Overdue work waits for a letter, which will arrive, or for a free place.
    if (time > now) next = std::min(next, time);
  };
  consider(start_.NextLook());
  if (next_queued_ < roster_.size() || start_.MayMeasureMore()) consider(roster_.next_stall());
  if (const auto wake = roster_.next_wake()) {
    consider(wake->first > now ? wake->first : roster_.next_stall());
  }
  consider(roster_.next_end());
  return next;
}

std::vector<WorkerResult> FanOutState::Run() {
  while (true) {
    const absl::Time now = SteadyNow();
    if (!interrupted_) start_.Advance(now);
    Wake(now);
    if (roster_.in(Stage::kDone) == roster_.size()) break;
    progress_->Update(tally_.Count(&roster_, WantedSteps(now), now));
    for (Mailbox::Letter& letter : mailbox_->Wait(NextWake(now))) letter();
  }
  progress_->Clear();
  progress_->Flush();
  mailbox_->Close();
  start_.MeasureSpread();
  std::vector<WorkerResult> results;
  results.reserve(roster_.size());
  for (size_t i = 0; i < roster_.size(); ++i) results.push_back(std::move(roster_[i].result));
  return results;
}

}  // namespace jobscope
