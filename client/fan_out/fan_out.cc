// SPDX-License-Identifier: Apache-2.0
#include "client/fan_out/fan_out.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/clock/monotonic.h"

namespace jobscope {
namespace {

// fsync of several files at once costs little more than of one; more threads than this gain
// nothing.
constexpr size_t kWriteThreads = 8;

constexpr absl::Duration kStopTimeout = absl::Seconds(5);
constexpr char kNothingRecorded[] = "interrupted before anything was recorded";

size_t WriteThreads(size_t workers, size_t max_parallel) {
  return std::clamp(std::min(workers, max_parallel), size_t{1}, kWriteThreads);
}

}  // namespace

FanOut::FanOut(std::vector<Endpoint> endpoints, std::vector<std::string> stems,
               FanOutOptions options, WorkerFactory factory, DeliveryWriter writer,
               Progress* progress)
    : options_(std::move(options)),
      factory_(std::move(factory)),
      writer_(std::move(writer)),
      progress_(progress),
      roster_(std::move(endpoints), std::move(stems)),
      admission_(options_, &roster_),
      start_(options_, &roster_, progress, this),
      backoff_(options_.times),
      pool_(WriteThreads(roster_.size(), options_.max_parallel)) {}

std::function<void(Mailbox::Letter)> FanOut::Letters(size_t index) {
  return
      [mailbox = mailbox_, this, index, attempt = roster_[index].attempt](Mailbox::Letter letter) {
        mailbox->Post([this, index, attempt, letter = std::move(letter)]() mutable {
          if (roster_[index].attempt == attempt) letter();
        });
      };
}

void FanOut::Connect(size_t index) {
  const absl::Time now = SteadyNow();
  if (roster_[index].stage == Stage::kQueued) start_.OnAsked(now);
  roster_.BeginAttempt(index, now + StallTime());
  Slot& slot = roster_[index];
  slot.asked = now;
  if (slot.attempt == 1) slot.first_asked = now;
  Ask(index, options_.protocol.value_or(Protocol::kNative));
}

void FanOut::Ask(size_t index, Protocol protocol) {
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

void FanOut::OnDescribed(size_t index, const grpc::Status& status,
                         const v1::DescribeResponse& response) {
  Slot& slot = roster_[index];
  if (slot.stage != Stage::kConnecting) return;
  const bool stock = status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
  if (!status.ok() && !stock) {
    slot.result.account.protocol.reset();
    RetryOrFinish(index, JudgeDescribe(status, slot.worker->connected(), options_.times.connect),
                  absl::ZeroDuration());
    return;
  }
  // Without silent addresses: their time limit would delay the others.
  usual_answer_ += (SteadyNow() - slot.asked - usual_answer_) / 8;
  Admission::Decision decision = admission_.Decide(index, stock ? nullptr : &response);
  switch (decision.next) {
    case Admission::Next::kArm:
      Arm(index);
      break;
    case Admission::Next::kAskTensorflow:
      Ask(index, Protocol::kTensorflow);
      break;
    case Admission::Next::kRetry:
      RetryOrFinish(index, std::move(decision.outcome), decision.at_least);
      break;
    case Admission::Next::kFinish:
      Finish(index, std::move(decision.outcome));
      break;
  }
  ContactAgain(decision.duplicates_of_earlier, index, "is another process now");
}

void FanOut::Arm(size_t index) {
  Slot& slot = roster_[index];
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

void FanOut::OnArmed(size_t index, const grpc::Status& status, const v1::Armed& armed,
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

bool FanOut::MayRetry(const Slot& slot) const {
  return slot.attempt - slot.rearms < options_.attempts;
}

void FanOut::RetryOrFinish(size_t index, WorkerOutcome outcome, absl::Duration at_least) {
  Slot& slot = roster_[index];
  const bool worth_retrying = IsWorthRetrying(outcome.kind);
  if (interrupted_ || !worth_retrying || !MayRetry(slot)) {
    if (worth_retrying && slot.attempt > 1) {
      absl::StrAppendFormat(&outcome.reason, "; %d attempts in %.1f s", slot.attempt,
                            absl::ToDoubleSeconds(slot.asked - slot.first_asked));
    }
    Finish(index, std::move(outcome));
    ContactAgain(admission_.TakeDuplicates(index), index, "failed");
    return;
  }
  slot.worker.reset();
  // If the worker says when it will be free, asks again right after that.
  const absl::Duration known = std::min(at_least, options_.times.max_backoff);
  roster_.BackOff(index, SteadyNow() + std::max(backoff_.After(slot.attempt), known));
  slot.result.outcome = std::move(outcome);
}

// While the others deliver, an attempt delays nobody. Later it would delay the run, for a recording
// that shares no moment with the others. A busy worker is contacted when it may be free.
void FanOut::EndBackOffs(absl::Time now) {
  if (back_offs_ended_ || !start_.facts().started.has_value() ||
      roster_.in(Stage::kRecording) > roster_.Overdue(now)) {
    return;
  }
  back_offs_ended_ = true;
  for (size_t i = 0; i < roster_.size(); ++i) {
    const Slot& slot = roster_[i];
    if (slot.stage == Stage::kBackingOff && slot.result.outcome.kind == Outcome::kUnreachable) {
      roster_.BackOff(i, now);
    }
  }
}

void FanOut::ContactAgain(const std::vector<size_t>& duplicates, size_t index, const char* why) {
  if (interrupted_) return;
  for (const size_t duplicate : duplicates) {
    Slot& slot = roster_[duplicate];
    progress_->Line(absl::StrCat(slot.endpoint.address, ": contacted again, because ",
                                 roster_[index].endpoint.address, " ", why));
    tally_.OnContactedAgain();
    slot.result.account.same_as.clear();
    ++slot.rearms;  // it has answered
    roster_.BackOff(duplicate, SteadyNow());
  }
}

void FanOut::OnStarted(size_t index, const v1::Started& started) {
  Slot& slot = roster_[index];
  if (slot.stage != Stage::kRecording) return;
  slot.started = started;
  slot.result.account.late_ns = started.late_ns();
}

void FanOut::OnProgress(size_t index, v1::Progress progress, uint64_t at_ns) {
  Slot& slot = roster_[index];
  if (slot.stage == Stage::kWriting || slot.stage == Stage::kDone) return;
  tally_.OnProgress(slot.progress, progress);
  if (progress.has_steps()) {
    slot.steps = progress.steps();
    slot.steps_seen_ns = at_ns;
  }
  slot.progress = std::move(progress);
}

void FanOut::OnNote(size_t index, const std::string& text) {
  progress_->Line(absl::StrCat(roster_[index].endpoint.address, ": ", text));
  roster_.Warn(index, text);
}

void FanOut::OnEnded(size_t index, const grpc::Status& status, std::unique_ptr<Delivery> delivery) {
  Slot& slot = roster_[index];
  if (slot.stage != Stage::kRecording && !IsWaiting(slot.stage)) return;
  if (delivery == nullptr) {
    OnEndedWithoutTrace(index, status);
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

void FanOut::OnEndedWithoutTrace(size_t index, const grpc::Status& status) {
  Slot& slot = roster_[index];
  const bool recording = slot.stage == Stage::kRecording;
  const absl::Time now = SteadyNow();
  const Moment moment = !recording || now < slot.start ? Moment::kBeforeStart
                        : now < slot.end               ? Moment::kRecording
                                                       : Moment::kAfterEnd;
  if (moment == Moment::kBeforeStart && !interrupted_ &&
      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED &&
      (start_.IsHolding() || MayRetry(slot))) {
    // A worker limits how long it stays armed. One that waits longer, for a delayed start or a
    // distant step, is armed again; that ends with the waiting. After it, while clocks are measured
    // or the start is on its way, this counts as an attempt, which bounds it.
    if (start_.IsHolding()) ++slot.rearms;
    slot.worker.reset();
    roster_.BackOff(index, now + backoff_.After(1));
    return;
  }
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
}

void FanOut::OnWritten(size_t index, WorkerOutcome outcome, ManifestWorker account) {
  Slot& slot = roster_[index];
  slot.result.account = std::move(account);
  if (slot.streams && !slot.clock.has_value()) slot.result.account.aligned = false;
  Finish(index, std::move(outcome));
}

void FanOut::Finish(size_t index, WorkerOutcome outcome) {
  Slot& slot = roster_[index];
  tally_.OnFinished(outcome.kind);
  if (IsDelivery(outcome.kind)) {
    connections_.push_back(slot.worker->connection());
  } else {
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

void FanOut::FinishUnstarted(const WorkerOutcome& outcome) {
  for (size_t i = 0; i < roster_.size(); ++i) {
    if (IsUnstarted(roster_[i].stage)) Finish(i, outcome);
  }
}

void FanOut::OnInterrupt() {
  if (interrupted_) return;
  interrupted_ = true;
  progress_->Line("interrupted: stopping and keeping the data (once more to exit at once)");
  const absl::Time now = SteadyNow();
  for (size_t i = 0; i < roster_.size(); ++i) {
    Slot& slot = roster_[i];
    if (IsUnstarted(slot.stage)) {
      const bool connecting = slot.stage == Stage::kQueued || slot.stage == Stage::kConnecting ||
                              slot.stage == Stage::kBackingOff;
      Finish(i, {Outcome::kFailed, connecting ? Phase::kConnect : Phase::kArm, kNothingRecorded,
                 std::nullopt});
    } else if (slot.stage == Stage::kRecording && now < slot.end) {
      slot.stopped = true;
      roster_.SetEnd(i, now);
      slot.worker->Stop(options_.session_id, kStopTimeout, [](const grpc::Status&, bool) {});
    }
  }
}

// Scales with the usual answer time: a worker that is slow because this machine is busy does not
// stall.
absl::Duration FanOut::StallTime() const {
  return std::max(options_.times.stall, 2 * usual_answer_);
}

// Starts the thread that will write the first trace, while there is time.
void FanOut::OnStartChosen() {
  pool_.Run([] {});
}

// Computed for the progress line that is due, not for each letter.
std::optional<StepsWanted> FanOut::WantedSteps(absl::Time now) const {
  if (!start_.facts().steps.has_value() || !progress_->IsDue(now)) return std::nullopt;
  return options_.steps;
}

void FanOut::Wake(absl::Time now) {
  start_.MeasureClocks(now);
  EndBackOffs(now);
  while (roster_.attempts(now) < options_.max_parallel) {
    const std::optional<size_t> next = roster_.NextToContact(now);
    if (!next.has_value()) break;
    Connect(*next);
  }
}

absl::Time FanOut::NextWake(absl::Time now) const {
  absl::Time next = now + progress_->period();
  const auto consider = [&next, now](absl::Time time) {
    // Overdue work waits for a letter, which will arrive, or for a free place.
    if (time > now) next = std::min(next, time);
  };
  consider(start_.NextLook());
  if (roster_.has_queued() || start_.MayMeasureMore()) consider(roster_.next_stall());
  consider(roster_.next_wake() > now ? roster_.next_wake() : roster_.next_stall());
  consider(roster_.next_end());
  return next;
}

std::vector<WorkerResult> FanOut::Run() {
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
