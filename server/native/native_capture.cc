// SPDX-License-Identifier: Apache-2.0
#include "server/native/native_capture.h"

#include <exception>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock/monotonic.h"
#include "server/guard/resource_guard.h"
#include "server/limits.h"
#include "server/native/capture_log.h"
#include "server/native/native_captures.h"

namespace jobscope {

NativeCapture::NativeCapture(Dependencies dependencies, std::string key, SessionOptions options)
    : dependencies_(std::move(dependencies)), key_(std::move(key)), options_(std::move(options)) {}

NativeCapture::StreamId NativeCapture::Submit(std::shared_ptr<StreamCall> stream,
                                              absl::Time deadline) {
  StreamId id = 0;
  {
    absl::MutexLock lock(&mutex_);
    id = streams_.Attach(stream);
  }
  try {
    SessionOptions options = options_;
    SessionCallbacks callbacks;
    const std::shared_ptr<NativeCapture> self = shared_from_this();
    callbacks.armed = [self](const SessionArmed& armed) { self->OnArmed(armed); };
    callbacks.started = [self](const SessionStarted& started) { self->OnStarted(started); };
    callbacks.done = [self](SessionResult result) { self->OnDone(std::move(result)); };
    const SessionTicket ticket = dependencies_.sessions->Submit(
        std::move(options), WhenBusy::kRefuse, deadline, std::move(callbacks));
    absl::MutexLock lock(&mutex_);
    ticket_ = ticket;
  } catch (const std::exception&) {  // before the request: Submit throws nothing
    SessionResult result;
    result.status = OutOfMemoryError();
    OnDone(std::move(result));
  }
  return id;
}

// ---- callbacks of the session, on its thread ----

void NativeCapture::OnArmed(const SessionArmed& armed) {
  armed.store->SetListener([waker = waker_] { waker->Wake(); });
  {
    absl::MutexLock lock(&mutex_);
    armed_ = armed;
    store_ = armed.store;
    phase_ = Phase::kArmed;
  }
  waker_->Wake();
}

void NativeCapture::OnStarted(const SessionStarted& started) {
  const uint64_t begun = dependencies_.steps().count;
  {
    absl::MutexLock lock(&mutex_);
    started_ = started;
    steps_.OnStarted(begun);
  }
  waker_->Wake();
}

void NativeCapture::OnDone(SessionResult result) {
  Remains remains;
  remains.slot = std::move(result.slot);  // unless it is kept
  {
    absl::MutexLock lock(&mutex_);
    const bool armed = phase_ != Phase::kArming;
    if (phase_ != Phase::kStarted && !dropping_.has_value()) {
      // The client has not yet asked for anything that the session reports of itself.
      dropping_ = result.status.ok() ? TryCancelledError("the capture was ended before its start")
                                     : result.status;
    }
    phase_ = Phase::kOver;
    result_ = dropping_.value_or(result.status);
    armed_.store = nullptr;
    ledger_.SetLast(store_ == nullptr ? 0 : store_->last_number());
    if (dropping_.has_value()) {
      ReleaseLocked(armed ? WhyDropped(result_) : "",
                    /*unasked=*/false, &remains);
    } else if (!streams_.any()) {
      HoldLocked(&remains);
    } else if (ledger_.outstanding() > 0) {
      slot_ = std::move(remains.slot);
    }
  }
  Discard(std::move(remains));
  waker_->Wake();
}

// ---- streams ----

absl::StatusOr<NativeCapture::StreamId> NativeCapture::Resume(std::shared_ptr<StreamCall> stream,
                                                              uint64_t next_item) {
  std::shared_ptr<StreamCall> replaced;
  std::shared_ptr<xspace::Store> store;
  std::unique_ptr<GrpcTimer> timer;
  StreamId id = 0;
  bool wants_slot = false;
  // Made in advance: once the stream is attached, nothing may throw. The capture would stay
  // attached to a stream that does not know it, and be held for ever.
  SessionOptions options;
  options.session_id = options_.session_id;
  options.peer = options_.peer;
  {
    absl::MutexLock lock(&mutex_);
    if (dropping_.has_value()) {
      return absl::NotFoundError(absl::StrCat("the capture was dropped: ", dropping_->message()));
    }
    if (phase_ == Phase::kArming || phase_ == Phase::kArmed) {
      return absl::FailedPreconditionError(
          "the capture has not been started: until then it ends with its stream");
    }
    if (store_ == nullptr) return absl::NotFoundError("the capture is gone");
    if (absl::Status status = ledger_.Resume(next_item); !status.ok()) return status;
    streams_.SetStatusOfOthers(absl::AbortedError(
        absl::StrCat("a newer Fetch has taken this capture over, from ", stream->peer())));
    replaced = waker_->Get();
    id = streams_.Attach(stream);
    timer = unattached_timer_.Cancel();
    store = store_;
    if (phase_ != Phase::kOver) dependencies_.sessions->SetClientLost(ticket_, std::nullopt);
    wants_slot = phase_ == Phase::kOver && ledger_.outstanding() > 0;
  }
  store->Release(next_item - 1);
  if (wants_slot) {
    // The slot was free, or this capture would have been evicted; unless that is about to happen.
    dependencies_.sessions->HoldSlot(std::move(options),
                                     [self = shared_from_this()](SessionResult result) {
                                       self->OnSlot(std::move(result.slot));
                                     });
  }
  if (replaced != nullptr) replaced->Wake();
  return id;
}

void NativeCapture::OnSlot(std::shared_ptr<void> slot) {
  absl::MutexLock lock(&mutex_);
  const bool wanted = streams_.any() && store_ != nullptr && ledger_.outstanding() > 0;
  if (wanted && slot_ == nullptr) slot_.swap(slot);  // the rest is released after the lock
}

void NativeCapture::Detach(StreamId stream) {
  Remains remains;
  SessionTicket ended = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (!streams_.Has(stream)) return;
    streams_.Detach();
    const auto captures = dependencies_.captures.lock();
    const bool closed = captures == nullptr || captures->closed();
    if (phase_ == Phase::kOver) {
      HoldLocked(&remains);
    } else if (phase_ != Phase::kStarted || closed) {
      dropping_ =
          TryCancelledError(phase_ == Phase::kStarted ? "the profiler server has ended"
                                                      : "its stream was lost before the start");
      remains.cancelled = ticket_;
    } else {
      const uint64_t now_ns = MonotonicNow();
      const auto resume_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(dependencies_.resume));
      dependencies_.sessions->SetClientLost(ticket_, ClientLost{now_ns, now_ns + resume_ns});
      const bool timed =
          unattached_timer_.Start(dependencies_.resume, [weak = weak_from_this()](uint64_t timer) {
            if (const auto self = weak.lock()) self->OnResumeTimeOver(timer);
          });
      // Nothing would end the recording later.
      if (!timed) ended = ticket_;
    }
  }
  if (ended != 0) (void)dependencies_.sessions->StopTicket(ended, EndedBy::kClientLost);
  Discard(std::move(remains));
}

void NativeCapture::Complete(StreamId stream) {
  Remains remains;
  {
    absl::MutexLock lock(&mutex_);
    if (!streams_.Has(stream)) return;
    streams_.Detach();
    ledger_.AcknowledgeAll();
    ReleaseLocked("was delivered", /*unasked=*/false, &remains);
  }
  Discard(std::move(remains));
}

NativeCapture::Snapshot NativeCapture::Look(StreamId stream) const {
  absl::MutexLock lock(&mutex_);
  Snapshot snapshot;
  snapshot.phase = phase_;
  snapshot.stream_status = streams_.StatusOf(stream);
  snapshot.commanded = commanded_;
  snapshot.recording = started_.has_value();
  if (started_.has_value()) snapshot.started = *started_;
  snapshot.result = result_;
  snapshot.dropped = dropping_.has_value();
  snapshot.last_item = ledger_.last();
  snapshot.acknowledged = ledger_.acknowledged();
  return snapshot;
}

SessionArmed NativeCapture::armed() const {
  absl::MutexLock lock(&mutex_);
  return armed_;
}

// ---- items ----

std::vector<xspace::HeldItem> NativeCapture::NextItems(StreamId stream, uint64_t first, bool few) {
  std::shared_ptr<xspace::Store> store;
  {
    absl::MutexLock lock(&mutex_);
    if (!streams_.Has(stream) || dropping_.has_value()) return {};
    store = store_;
    few = few || phase_ == Phase::kOver;
  }
  if (store == nullptr) return {};
  if (!store->NotifyFrom(first, limits::kMaxMessageItemBytes) && !few) return {};
  std::vector<xspace::HeldItem> items = store->Read(first, limits::kMaxMessageItemBytes);
  if (items.empty()) return items;
  absl::MutexLock lock(&mutex_);
  if (!streams_.Has(stream)) return {};
  ledger_.OnSent(items.back().item.number);
  return items;
}

absl::Status NativeCapture::Acknowledge(StreamId stream, uint64_t through) {
  std::shared_ptr<xspace::Store> store;
  std::shared_ptr<void> slot;
  {
    absl::MutexLock lock(&mutex_);
    if (!streams_.Has(stream)) return absl::OkStatus();  // of a stream that was replaced
    bool news = false;
    if (absl::Status status = ledger_.Acknowledge(through, &news); !status.ok()) return status;
    if (!news) return absl::OkStatus();
    store = store_;
    if (phase_ == Phase::kOver && ledger_.outstanding() == 0) slot = std::move(slot_);
  }
  if (store != nullptr) store->Release(through);
  return absl::OkStatus();
}

// ---- requests of the client ----

void NativeCapture::Start(StartCommand command) {
  SessionTicket ticket = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (phase_ != Phase::kArmed || dropping_.has_value()) return;  // stopped meanwhile
    phase_ = Phase::kStarted;
    commanded_ = true;
    steps_.SetRange(command.steps);
    ticket = ticket_;
  }
  // If refused, the session was stopped at this moment, and `done` reports it.
  (void)dependencies_.sessions->Command(ticket, std::move(command));
}

void NativeCapture::Finish() {
  SessionTicket ticket = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (phase_ != Phase::kStarted) return;
    ticket = ticket_;
  }
  (void)dependencies_.sessions->StopTicket(ticket);  // false: it has just ended by itself
}

void NativeCapture::Drop(absl::Status why) {
  Remains remains;
  {
    absl::MutexLock lock(&mutex_);
    if (dropping_.has_value()) return;
    dropping_ = why;
    if (phase_ == Phase::kOver) {
      result_ = why;
      ReleaseLocked(WhyDropped(why), /*unasked=*/false, &remains);
    } else {
      remains.cancelled = ticket_;
    }
  }
  Discard(std::move(remains));
  waker_->Wake();
}

void NativeCapture::YieldSlot() {
  Remains remains;
  absl::MutexLock lock(&mutex_);
  remains.slot = std::move(slot_);
}

// ---- the end ----

bool NativeCapture::Evict(const std::string& by) {
  Remains remains;
  {
    absl::MutexLock lock(&mutex_);
    if (phase_ != Phase::kOver || slot_ != nullptr || store_ == nullptr) return false;
    streams_.Evict(StatusOrCode(absl::StatusCode::kAborted, [&by] {
      return absl::AbortedError(absl::StrCat("the capture was evicted by ", by));
    }));
    ReleaseLocked(TryText([&by] { return absl::StrCat("was evicted by ", by); }),
                  /*unasked=*/true, &remains);
  }
  Discard(std::move(remains));
  waker_->Wake();
  return true;
}

void NativeCapture::DropUnattached(const std::string& why) {
  Remains remains;
  {
    absl::MutexLock lock(&mutex_);
    if (streams_.any() || dropping_.has_value()) return;
    if (phase_ == Phase::kOver) {
      ReleaseLocked(TryText([&why] { return why; }), /*unasked=*/true, &remains);
    } else {
      dropping_ = TryCancelledError(why);
      remains.cancelled = ticket_;
    }
  }
  Discard(std::move(remains));
}

// A held capture blocks no other: the next session evicts it.
void NativeCapture::HoldLocked(Remains* remains) {
  if (slot_ != nullptr) remains->slot = std::move(slot_);
  if (store_ == nullptr) return;
  const auto captures = dependencies_.captures.lock();
  if (captures == nullptr || captures->closed()) {
    ReleaseLocked(TryText([] { return "ended with the profiler server"; }),
                  /*unasked=*/true, remains);
    return;
  }
  const bool timed =
      unattached_timer_.Start(dependencies_.hold, [weak = weak_from_this()](uint64_t timer) {
        if (const auto self = weak.lock()) self->OnHoldOver(timer);
      });
  // Nothing would discard it later. A text this short needs no memory.
  if (!timed) ReleaseLocked("lacked memory", /*unasked=*/true, remains);
}

void NativeCapture::OnHoldOver(uint64_t timer) {
  Remains remains;
  {
    absl::MutexLock lock(&mutex_);
    if (!unattached_timer_.IsCurrent(timer) || store_ == nullptr) return;
    ReleaseLocked(TryText([this] {
                    return absl::StrCat("was discarded: no client fetched it for ",
                                        absl::FormatDuration(dependencies_.hold));
                  }),
                  /*unasked=*/true, &remains);
  }
  Discard(std::move(remains));
}

void NativeCapture::OnResumeTimeOver(uint64_t timer) {
  SessionTicket ticket = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (!unattached_timer_.IsCurrent(timer) || phase_ != Phase::kStarted) return;
    ticket = ticket_;
  }
  LogNotReconnected(options_, dependencies_.resume);
  (void)dependencies_.sessions->StopTicket(ticket,
                                           EndedBy::kClientLost);  // false: it has just ended
}

void NativeCapture::ReleaseLocked(std::string why, bool unasked, Remains* remains) {
  remains->timer = unattached_timer_.Cancel();
  if (unasked && store_ != nullptr) {
    remains->items = ledger_.outstanding();
  }
  remains->store = std::move(store_);
  if (slot_ != nullptr) remains->slot = std::move(slot_);
  remains->forget = true;
  remains->why = std::move(why);
}

void NativeCapture::Discard(Remains remains) {
  if (remains.cancelled != 0) dependencies_.sessions->Cancel(remains.cancelled);
  if (!remains.forget) return;
  // First: who sees that it is gone finds the reason in the log.
  if (remains.items != 0) LogItemsLost(options_, remains.why, remains.items);
  try {
    if (const auto captures = dependencies_.captures.lock()) {
      captures->Forget(*this, remains.why);
    }
  } catch (const std::exception&) {
    // Out of memory: it is forgotten, but without its reason.
  }
}

// ---- progress ----

v1::Progress NativeCapture::Progress() const {
  const StepHistory history = dependencies_.steps();
  SessionTicket ticket = 0;
  std::shared_ptr<xspace::Store> store;
  v1::Progress progress;
  {
    absl::MutexLock lock(&mutex_);
    ticket = ticket_;
    store = store_;
    progress.set_window_steps(steps_.Count(history));
  }
  if (const auto session = dependencies_.sessions->Progress(ticket)) {
    progress.set_state(Name(session->phase));
    progress.set_events(session->events);
    progress.set_lost(session->lost);
    progress.set_bytes(session->bytes);
  }
  if (store != nullptr) progress.set_unacknowledged_bytes(store->used_bytes());
  if (auto steps = StepStateOf(history)) *progress.mutable_steps() = *std::move(steps);
  return progress;
}

}  // namespace jobscope
