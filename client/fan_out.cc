// SPDX-License-Identifier: Apache-2.0
#include "client/fan_out.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/mailbox.h"
#include "client/write_pool.h"

namespace jobscope {
namespace {

// fsync of several files at once costs little more than of one; beyond a few nothing is gained.
constexpr size_t kWriteThreads = 8;
// A common start lies this far ahead of the moment at which all are asked: the requests must have
// arrived and armed.
constexpr absl::Duration kMinLead = absl::Milliseconds(50);
constexpr absl::Duration kMaxLead = absl::Seconds(1);
constexpr absl::Duration kLeadPerWorker = absl::Microseconds(100);
constexpr absl::Duration kStopTimeout = absl::Seconds(5);

enum class Step { kQueued, kConnecting, kBackingOff, kReady, kRecording, kWriting, kDone };

// One worker.
struct Slot {
  Endpoint endpoint;
  std::string stem;
  Step step = Step::kQueued;
  int attempt = 0;  // letters of earlier attempts are void
  std::shared_ptr<Worker> worker;
  std::optional<v1::DescribeResponse> description;  // of a worker that speaks the native protocol
  absl::Time asked;                                 // when the running Describe was sent
  absl::Time wake = absl::InfiniteFuture();   // next retry (kBackingOff) or probe (kRecording)
  absl::Time start = absl::InfiniteFuture();  // planned
  absl::Time end = absl::InfiniteFuture();    // planned
  bool stopped = false;                       // by us
  std::string waits_behind;                   // whose session the worker is busy with
  WorkerResult result;
};

std::string Milliseconds(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Milliseconds(duration), " ms");
}

std::string HeldBy(const v1::Busy& busy) {
  return absl::StrCat("busy with session '", Printable(busy.session_id()), "'",
                      busy.peer().empty() ? "" : " of ", Printable(busy.peer()), ", ",
                      busy.remaining_ms(), " ms left");
}

}  // namespace

class FanOut::State {
 public:
  State(std::vector<Endpoint> endpoints, std::vector<std::string> stems, FanOutOptions options,
        WorkerFactory factory, ReplyWriter writer, Progress* progress)
      : options_(std::move(options)),
        factory_(std::move(factory)),
        writer_(std::move(writer)),
        progress_(progress),
        pool_(std::min(kWriteThreads, std::max<size_t>(endpoints.size(), 1))) {
    slots_.resize(endpoints.size());
    for (size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].endpoint = std::move(endpoints[i]);
      slots_[i].stem = std::move(stems[i]);
      slots_[i].result.account.address = slots_[i].endpoint.address;
      slots_[i].result.account.name = slots_[i].stem;
    }
  }

  ~State() { mailbox_->Close(); }

  std::vector<WorkerResult> Run();
  void Interrupt() {
    mailbox_->Post([this] { OnInterrupt(); });
  }
  std::optional<absl::Time> started() const { return start_; }

 private:
  // For callbacks of one attempt: posts letters that run on the deciding thread, unless the attempt
  // is over by then. May outlive this: the mailbox is closed before.
  auto Letters(size_t index) {
    return [mailbox = mailbox_, this, index, attempt = slots_[index].attempt](auto letter) {
      mailbox->Post([this, index, attempt, letter = std::move(letter)]() mutable {
        if (slots_[index].attempt == attempt) letter();
      });
    };
  }

  void Connect(size_t index);
  void OnDescribed(size_t index, const grpc::Status& status, v1::DescribeResponse response);
  void OnReady(size_t index);
  void Decide(absl::Time now);
  void BeginCapture(size_t index, std::optional<absl::Time> at, absl::Time now);
  void OnReply(size_t index, const grpc::Status& status, grpc::ByteBuffer reply);
  void Probe(size_t index, absl::Time now);
  void OnProbed(size_t index, const grpc::Status& status, const v1::DescribeResponse& response);
  void RetryOrFinish(size_t index, Verdict verdict, absl::Duration at_least);
  void Finish(size_t index, Verdict verdict);
  void OnInterrupt();
  void Wake(absl::Time now);
  absl::Time NextWake(absl::Time now) const;
  ProgressCounts Count(absl::Time now) const;
  absl::Duration Backoff(int attempt);

  const FanOutOptions options_;
  const WorkerFactory factory_;
  const ReplyWriter writer_;
  Progress* const progress_;
  const std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  std::vector<Slot> slots_;
  size_t done_ = 0;
  size_t connecting_ = 0;
  size_t next_queued_ = 0;
  bool interrupted_ = false;
  std::optional<absl::Time> start_;  // decided: the common start, or the first single one
  absl::Time last_ready_;
  absl::Duration slowest_ready_;
  std::minstd_rand random_{std::random_device{}()};
  WritePool pool_;  // last: its threads are joined first
};

void FanOut::State::Connect(size_t index) {
  Slot& slot = slots_[index];
  ++slot.attempt;
  ++connecting_;
  slot.step = Step::kConnecting;
  slot.asked = absl::Now();
  slot.description.reset();
  slot.waits_behind.clear();
  slot.worker = factory_(slot.endpoint);
  slot.worker->Describe(
      slot.asked + options_.times.connect,
      [this, index, post = Letters(index)](const grpc::Status& status,
                                           const v1::DescribeResponse& response) {
        post([this, index, status, response] { OnDescribed(index, status, response); });
      });
}

void FanOut::State::OnDescribed(size_t index, const grpc::Status& status,
                                v1::DescribeResponse response) {
  Slot& slot = slots_[index];
  if (slot.step != Step::kConnecting) return;
  --connecting_;
  ManifestWorker& account = slot.result.account;
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    account.protocol = "tensorflow";
    OnReady(index);
    return;
  }
  if (!status.ok()) {
    RetryOrFinish(index, JudgeDescribe(status, slot.worker->connected(), options_.times.connect),
                  absl::ZeroDuration());
    return;
  }
  account.protocol = "tensorflow";  // of the trace: the native stream does not exist yet
  FillFromDescription(response, &account);
  account.busy.reset();
  account.current_step.reset();
  account.step_time_ms.reset();
  const uint64_t limit_ms = response.limits().max_duration_ms();
  if (limit_ms > 0 && options_.duration > absl::Milliseconds(limit_ms)) {
    Finish(index,
           {Outcome::kRefused, Phase::kDescribe,
            absl::StrCat("this worker records for at most ", limit_ms, " ms; lower --duration_ms"),
            std::nullopt});
    return;
  }
  if (response.has_busy()) {
    RetryOrFinish(index, {Outcome::kBusy, Phase::kDescribe, HeldBy(response.busy()), std::nullopt},
                  absl::Milliseconds(response.busy().remaining_ms()));
    return;
  }
  slot.description = std::move(response);
  OnReady(index);
}

void FanOut::State::OnReady(size_t index) {
  Slot& slot = slots_[index];
  const absl::Time now = absl::Now();
  slot.step = Step::kReady;
  last_ready_ = now;
  slowest_ready_ = std::max(slowest_ready_, now - slot.asked);
  if (!start_.has_value()) return;  // Decide will start it
  // The others have begun, or are about to.
  if (*start_ > now + kMinLead) {
    BeginCapture(index, start_, now);
    return;
  }
  slot.result.account.warnings.push_back(
      absl::StrCat("began ", Milliseconds(now - *start_), " after the others"));
  BeginCapture(index, std::nullopt, now);
}

// Whether to start, and when. All that answer at their first attempt start together; whoever is
// refused, busy or silent does not hold them up.
void FanOut::State::Decide(absl::Time now) {
  if (start_.has_value() || interrupted_) return;
  size_t ready = 0;
  size_t first_attempts = 0;
  size_t may_come = 0;
  for (const Slot& slot : slots_) {
    ready += slot.step == Step::kReady ? 1 : 0;
    const bool pending = slot.step == Step::kQueued || slot.step == Step::kConnecting;
    first_attempts += pending && slot.attempt <= 1 ? 1 : 0;
    may_come += pending || slot.step == Step::kBackingOff ? 1 : 0;
  }
  const size_t wanted = options_.min_workers.value_or(1);
  if (ready + may_come < wanted) {
    if (ready == 0 && may_come == 0) return;
    const std::string reason =
        absl::StrCat("nothing was recorded: --min_workers=", wanted, ", but only ",
                     ready + may_come, " of ", slots_.size(), " workers can be armed");
    for (size_t i = 0; i < slots_.size(); ++i) {
      const Step step = slots_[i].step;
      if (step == Step::kDone) continue;
      if (step == Step::kConnecting) --connecting_;
      Finish(i, {Outcome::kFailed, Phase::kArm, reason, std::nullopt});
    }
    return;
  }
  if (ready < wanted) return;
  const absl::Duration patience = std::max(options_.times.gather, 4 * slowest_ready_);
  if (first_attempts > 0 && now < last_ready_ + patience) return;

  std::optional<absl::Time> at;
  if (slots_.size() > 1 || options_.delay > absl::ZeroDuration()) {
    const absl::Duration lead = std::clamp(
        slowest_ready_ + static_cast<double>(ready) * kLeadPerWorker, kMinLead, kMaxLead);
    at = now + options_.delay + lead;
  }
  start_ = at.value_or(now);
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].step == Step::kReady) BeginCapture(i, at, now);
  }
}

void FanOut::State::BeginCapture(size_t index, std::optional<absl::Time> at, absl::Time now) {
  Slot& slot = slots_[index];
  slot.step = Step::kRecording;
  slot.start = at.value_or(now);
  slot.end = slot.start + options_.duration;
  // Signs of life matter only once the answer is overdue, but the first may take `silence` to be
  // missed.
  slot.wake = std::max(now, slot.end - options_.times.probe_period);
  CaptureCall call;
  call.session_id = options_.session_id;
  call.file_stem = slot.stem;
  call.repository_root = options_.repository_root;
  call.start = at;
  call.duration = options_.duration;
  call.host_tracer_level = options_.host_tracer_level;
  call.device_tracer_level = options_.device_tracer_level;
  call.python_tracer_level = options_.python_tracer_level;
  call.deadline = slot.end + options_.times.transfer;
  slot.worker->Capture(call, [this, index, post = Letters(index)](const grpc::Status& status,
                                                                  grpc::ByteBuffer reply) {
    post([this, index, status, reply = std::move(reply)]() mutable {
      OnReply(index, status, std::move(reply));
    });
  });
}

void FanOut::State::OnReply(size_t index, const grpc::Status& status, grpc::ByteBuffer reply) {
  Slot& slot = slots_[index];
  if (slot.step != Step::kRecording) return;
  slot.wake = absl::InfiniteFuture();
  if (!status.ok()) {
    const absl::Time now = absl::Now();
    const Moment moment = now < slot.start ? Moment::kBeforeStart
                          : now < slot.end ? Moment::kRecording
                                           : Moment::kAfterEnd;
    Verdict verdict = JudgeCapture(status, moment, slot.worker->connected());
    if (verdict.outcome == Outcome::kTimeout && !slot.waits_behind.empty()) {
      verdict = {Outcome::kBusy, Phase::kArm, slot.waits_behind, verdict.grpc_code};
    }
    if (slot.stopped && verdict.outcome != Outcome::kBusy) {
      verdict.reason = absl::StrCat("interrupted: ", verdict.reason);
    }
    RetryOrFinish(index, std::move(verdict), absl::ZeroDuration());
    return;
  }
  slot.step = Step::kWriting;
  const ReplyContext context{slot.description.has_value(), slot.stopped};
  pool_.Run([this, index, context, post = Letters(index), account = slot.result.account,
             reply = std::move(reply)]() mutable {
    Verdict verdict = writer_(index, context, &reply, &account);
    post([this, index, verdict = std::move(verdict), account = std::move(account)]() mutable {
      slots_[index].result.account = std::move(account);
      Finish(index, std::move(verdict));
    });
  });
}

void FanOut::State::Probe(size_t index, absl::Time now) {
  Slot& slot = slots_[index];
  slot.wake = absl::InfiniteFuture();  // until this one is answered
  slot.worker->Describe(now + options_.times.silence, [this, index, post = Letters(index)](
                                                          const grpc::Status& status,
                                                          const v1::DescribeResponse& response) {
    post([this, index, status, response] { OnProbed(index, status, response); });
  });
}

void FanOut::State::OnProbed(size_t index, const grpc::Status& status,
                             const v1::DescribeResponse& response) {
  Slot& slot = slots_[index];
  if (slot.step != Step::kRecording) return;
  const absl::Time now = absl::Now();
  const bool silent = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
                      status.error_code() == grpc::StatusCode::UNAVAILABLE;
  if (silent && now >= slot.end) {
    Finish(index, {Outcome::kTimeout, Phase::kTransfer,
                   absl::StrCat("no sign of life for ", Milliseconds(options_.times.silence),
                                "; is the process stopped, or the network cut?"),
                   static_cast<int>(grpc::StatusCode::DEADLINE_EXCEEDED)});
    return;
  }
  slot.waits_behind.clear();
  if (status.ok() && response.has_busy() && response.busy().session_id() != options_.session_id) {
    slot.waits_behind = HeldBy(response.busy());
  }
  slot.wake = silent ? now : now + options_.times.probe_period;
}

absl::Duration FanOut::State::Backoff(int attempt) {
  absl::Duration backoff = options_.times.first_backoff;
  for (int i = 1; i < attempt && backoff < options_.times.max_backoff; ++i) backoff *= 2;
  backoff = std::min(backoff, options_.times.max_backoff);
  // Many clients that were refused together must not come back together.
  return backoff * (1.0 + std::uniform_real_distribution<double>(0.0, 0.25)(random_));
}

void FanOut::State::RetryOrFinish(size_t index, Verdict verdict, absl::Duration at_least) {
  Slot& slot = slots_[index];
  if (interrupted_ || !IsWorthRetrying(verdict.outcome) || slot.attempt >= options_.attempts) {
    Finish(index, std::move(verdict));
    return;
  }
  slot.worker.reset();
  slot.step = Step::kBackingOff;
  // A worker that says when it will be free is asked again right after that.
  const absl::Duration known = std::min(at_least, options_.times.max_backoff);
  slot.wake = absl::Now() + std::max(Backoff(slot.attempt), known);
  slot.result.verdict = std::move(verdict);
}

void FanOut::State::Finish(size_t index, Verdict verdict) {
  Slot& slot = slots_[index];
  if (!IsDelivery(verdict.outcome)) {
    progress_->Line(absl::StrCat(slot.endpoint.address, ": ", Name(verdict.outcome), " (",
                                 Name(verdict.phase), "): ", verdict.reason));
    // Counts of a trace that is not there would be added up.
    slot.result.account.events.reset();
    slot.result.account.lost.reset();
  }
  slot.result.verdict = std::move(verdict);
  slot.result.account.attempts = slot.attempt;
  slot.step = Step::kDone;
  slot.wake = absl::InfiniteFuture();
  slot.worker.reset();  // cancels whatever is in flight
  ++done_;
}

void FanOut::State::OnInterrupt() {
  if (interrupted_) return;
  interrupted_ = true;
  progress_->Line("interrupted: stopping, and keeping what there is (once more to give up)");
  const absl::Time now = absl::Now();
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    switch (slot.step) {
      case Step::kQueued:
      case Step::kConnecting:
      case Step::kBackingOff:
      case Step::kReady: {
        if (slot.step == Step::kConnecting) --connecting_;
        const Phase phase = slot.step == Step::kReady ? Phase::kArm : Phase::kConnect;
        Finish(i,
               {Outcome::kFailed, phase, "interrupted before anything was recorded", std::nullopt});
        break;
      }
      case Step::kRecording:
        if (now < slot.end) {
          slot.stopped = true;
          slot.end = now;
          slot.wake = std::min(slot.wake, now + options_.times.probe_period);
          slot.worker->Stop(options_.session_id, slot.description.has_value(), now + kStopTimeout,
                            [](const grpc::Status&, bool) {});
        }
        break;
      case Step::kWriting:
      case Step::kDone:
        break;
    }
  }
}

void FanOut::State::Wake(absl::Time now) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].wake > now) continue;
    if (slots_[i].step == Step::kRecording) {
      Probe(i, now);
    } else if (slots_[i].step == Step::kBackingOff && connecting_ < options_.max_parallel) {
      slots_[i].wake = absl::InfiniteFuture();
      Connect(i);
    }
  }
  while (next_queued_ < slots_.size() && connecting_ < options_.max_parallel) {
    if (slots_[next_queued_].step == Step::kQueued) Connect(next_queued_);
    ++next_queued_;
  }
}

absl::Time FanOut::State::NextWake(absl::Time now) const {
  absl::Time next = now + progress_->period();
  if (!start_.has_value()) {
    const absl::Duration patience = std::max(options_.times.gather, 4 * slowest_ready_);
    const absl::Time decision = last_ready_ + patience;
    if (decision > now) next = std::min(next, decision);
  }
  for (const Slot& slot : slots_) {
    // One that is overdue waits for a free place among those that connect: a letter will tell.
    if (slot.wake > now) next = std::min(next, slot.wake);
  }
  return next;
}

ProgressCounts FanOut::State::Count(absl::Time now) const {
  ProgressCounts counts;
  counts.total = slots_.size();
  for (const Slot& slot : slots_) {
    switch (slot.step) {
      case Step::kQueued:
      case Step::kConnecting:
      case Step::kBackingOff:
        ++counts.connecting;
        break;
      case Step::kReady:
        ++counts.ready;
        break;
      case Step::kRecording:
        ++(now < slot.end ? counts.recording : counts.collecting);
        counts.left = std::max(counts.left, slot.end - now);
        break;
      case Step::kWriting:
        ++counts.writing;
        break;
      case Step::kDone:
        ++(IsDelivery(slot.result.verdict.outcome) ? counts.delivered : counts.failed);
        break;
    }
  }
  return counts;
}

std::vector<WorkerResult> FanOut::State::Run() {
  while (true) {
    const absl::Time now = absl::Now();
    Wake(now);
    Decide(now);
    if (done_ == slots_.size()) break;
    progress_->Update(Count(now));
    for (Mailbox::Letter& letter : mailbox_->Wait(NextWake(now))) letter();
  }
  progress_->Clear();
  mailbox_->Close();
  std::vector<WorkerResult> results;
  results.reserve(slots_.size());
  for (Slot& slot : slots_) results.push_back(std::move(slot.result));
  return results;
}

FanOut::FanOut(std::vector<Endpoint> endpoints, std::vector<std::string> stems,
               FanOutOptions options, WorkerFactory factory, ReplyWriter writer, Progress* progress)
    : state_(std::make_unique<State>(std::move(endpoints), std::move(stems), std::move(options),
                                     std::move(factory), std::move(writer), progress)) {}

FanOut::~FanOut() = default;

std::vector<WorkerResult> FanOut::Run() { return state_->Run(); }

void FanOut::Interrupt() { state_->Interrupt(); }

std::optional<absl::Time> FanOut::started() const { return state_->started(); }

}  // namespace jobscope
