// SPDX-License-Identifier: Apache-2.0
//
// What StreamedCapture does when its stream is lost, when the worker is silent, and at the end.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/native/streamed_capture.h"
#include "client/worker/outcome.h"
#include "common/clock/monotonic.h"
#include "common/net/server_ended.h"
#include "common/process/pid_space.h"

namespace jobscope {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(100);
constexpr absl::Duration kMaxBackoff = absl::Seconds(2);
// After seven seconds of silence, a worker that is there again answers at once or not at all.
constexpr absl::Duration kLeastResumeTime = absl::Seconds(2);
// For a worker to take the last acknowledgement, or the news that nobody wants its data.
constexpr absl::Duration kCloseTimeout = absl::Seconds(1);
constexpr uint64_t kNever = UINT64_MAX;

// The worker, or what stands for it, has decided: asking again would bring the same.
bool IsRefusal(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::ALREADY_EXISTS:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::UNIMPLEMENTED:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
      return true;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return absl::StrContains(status.error_message(), "larger than max");
    default:
      return false;
  }
}

// Its captures are gone with it, and another server that may come in its place has none of them.
bool HasServerEnded(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         status.error_message() == kServerEndedText;
}

}  // namespace

uint64_t StreamedCapture::ToNs(absl::Duration duration) {
  // Far enough for any sum of two of them.
  return static_cast<uint64_t>(
      absl::ToInt64Nanoseconds(std::clamp(duration, absl::ZeroDuration(), absl::Hours(24 * 365))));
}

uint64_t StreamedCapture::In(absl::Duration delay) { return MonotonicNow() + ToNs(delay); }

std::shared_ptr<Timer> StreamedCapture::After(absl::Duration delay,
                                              void (StreamedCapture::*what)()) {
  return Timer::Start(threads_, delay, [weak = weak_from_this(), what] {
    const std::shared_ptr<StreamedCapture> self = weak.lock();
    if (self != nullptr) self->strand_.Post([self, what] { (self.get()->*what)(); });
  });
}

void StreamedCapture::ResetBackoff() { backoff_ = kFirstBackoff; }

void StreamedCapture::OnStreamDone(uint64_t generation, const grpc::Status& status) {
  if (generation != generation_) return;
  stream_.reset();
  if (state_ == State::kOver) {
    if (close_timer_ != nullptr) close_timer_->Cancel();
    return;
  }
  reading_ = false;
  Break(status.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE,
                                   "the worker closed the stream before its end")
                    : status,
        /*fault=*/false);
}

void StreamedCapture::Break(const grpc::Status& status, bool fault) {
  switch (state_) {
    case State::kNew:
    case State::kOver:
      return;
    case State::kArming:
      EndArming(status);
      return;
    case State::kArmed:
      End(status, /*with_delivery=*/false);
      return;
    case State::kRecording:
      break;
  }
  if (received_.summary_item != 0) {
    // Nothing is missing but the word that this is so.
    End(grpc::Status::OK, /*with_delivery=*/true);
    return;
  }
  if (!fault && HasServerEnded(status)) {
    orderly_end_ = true;
    EndIncomplete(status);
    return;
  }
  if (!fault && start_.process_id.has_value() && HasEnded(*start_.process_id)) {
    EndIncomplete(grpc::Status(
        status.error_code(),
        absl::StrCat(ReasonOf(status), "; its process, pid ", *start_.process_id, ", has ended")));
    return;
  }
  // A worker that sends nonsense is asked once more: it may have been the way.
  if ((!fault && IsRefusal(status)) || (fault && ++faults_ > 1)) {
    EndIncomplete(status);
    return;
  }
  if (stream_ != nullptr) stream_->Cancel();
  stream_.reset();
  probe_.reset();
  ++generation_;
  reading_ = false;
  last_failure_ = ReasonOf(status);
  if (!broken_) {
    broken_ = true;
    break_ns_ = MonotonicNow();
    silent_since_ns_ = heard_ns_;
    break_status_ = status;
    events_.note(absl::StrFormat("connection lost after %.1f MiB (%s); trying again",
                                 static_cast<double>(received_.bytes) / (1 << 20), last_failure_));
  }
  // Up to a quarter more by chance: what cut off one worker may have cut off a thousand.
  const double spread = std::uniform_real_distribution<double>(1, 1.25)(random_);
  retry_timer_ = After(backoff_ * spread, &StreamedCapture::Retry);
  backoff_ = std::min(backoff_ * 2, kMaxBackoff);
  Watch();
}

void StreamedCapture::Retry() {
  retry_timer_.reset();
  if (state_ != State::kRecording || !broken_ || stream_ != nullptr) return;
  // What was spooled needs no acknowledgement beside this.
  acknowledged_item_ = received_.last_item;
  acknowledged_bytes_ = received_.bytes;
  Open(options_.dial(), ItemStream::kFetch,
       ResumeBytes(capture_key_, received_.last_item + 1, received_.partial_bytes));
  if (finish_wanted_) stream_->Write(FinishBytes(kind_, /*abandon=*/false));
}

void StreamedCapture::OnHeard() {
  heard_ns_ = MonotonicNow();
  if (!std::exchange(broken_, false)) return;
  const absl::Duration outage = absl::Nanoseconds(static_cast<int64_t>(heard_ns_ - break_ns_));
  outage_ += outage;
  ++breaks_;
  events_.note(absl::StrFormat("connected again after %.1f s", absl::ToDoubleSeconds(outage)));
}

void StreamedCapture::DoFinish() {
  if (state_ != State::kRecording) return;
  const uint64_t now_ns = MonotonicNow();
  planned_end_ns_ = std::min(planned_end_ns_, now_ns);
  last_deadline_ns_ = std::min(last_deadline_ns_, now_ns + ToNs(start_.transfer));
  if (!std::exchange(finish_wanted_, true) && stream_ != nullptr) {
    stream_->Write(FinishBytes(kind_, /*abandon=*/false));
  }
  Watch();
}

void StreamedCapture::DoCancel() {
  const grpc::Status cancelled(grpc::StatusCode::CANCELLED, "given up");
  if (state_ == State::kArming) {
    EndArming(cancelled);
  } else if (state_ == State::kArmed || state_ == State::kRecording) {
    End(cancelled, /*with_delivery=*/false);
  }
}

void StreamedCapture::EndArming(const grpc::Status& status) {
  state_ = State::kOver;
  Close(/*abandon=*/true);
  const WorkerEvents events = std::exchange(events_, {});
  events.armed(status, {});
}

void StreamedCapture::EndIncomplete(const grpc::Status& status) {
  if (taking_) {
    end_wanted_ = status;
    return;
  }
  if (!broken_) {
    End(status, received_.events > 0);
    return;
  }
  // Both what cut it off, and why that could not be mended.
  End(grpc::Status(status.error_code(),
                   absl::StrCat(ReasonOf(break_status_), "; then ", ReasonOf(status))),
      received_.events > 0);
}

void StreamedCapture::End(const grpc::Status& status, bool with_delivery) {
  state_ = State::kOver;
  std::unique_ptr<Delivery> delivery;
  if (with_delivery) delivery = MakeDelivery(status);
  Close(/*abandon=*/!status.ok() || (receiver_ != nullptr && !receiver_->disk_error().ok()));
  const WorkerEvents events = std::exchange(events_, {});
  events.ended(status, std::move(delivery));
}

std::unique_ptr<Delivery> StreamedCapture::MakeDelivery(const grpc::Status& status) {
  SpooledCapture capture;
  capture.spool = receiver_->TakeSpool();
  capture.index = receiver_->TakeIndex();
  capture.received = receiver_->received();
  capture.disk_error = receiver_->disk_error();
  capture.start = start_;
  capture.announced_last_item = announced_last_item_;
  capture.status = status;
  capture.after_end = (broken_ ? break_ns_ : MonotonicNow()) >= planned_end_ns_;
  capture.orderly_end = orderly_end_;
  capture.breaks = breaks_;
  capture.outage = outage_;
  capture.part_limit_bytes = options_.part_limit_bytes;
  return std::make_unique<SpoolDelivery>(std::move(capture));
}

void StreamedCapture::Close(bool abandon) {
  StopTimers();
  if (stream_ == nullptr) return;
  if (abandon) stream_->Write(FinishBytes(kind_, /*abandon=*/true));
  stream_->Drain();
  close_timer_ = Timer::Start(threads_, kCloseTimeout, [stream = stream_] { stream->Cancel(); });
}

void StreamedCapture::Probe() {
  probe_ = std::make_unique<UnaryCalls>(options_.dial_probe(), threads_);
  probe_->Describe(options_.timeouts.probe,
                   [weak = weak_from_this(), generation = generation_, heard_ns = heard_ns_](
                       const grpc::Status& status, const v1::DescribeResponse&) {
                     const std::shared_ptr<StreamedCapture> self = weak.lock();
                     if (self == nullptr) return;
                     self->strand_.Post([self, generation, heard_ns, status] {
                       self->OnProbed(generation, heard_ns, status);
                     });
                   });
}

void StreamedCapture::OnProbed(uint64_t generation, uint64_t heard_ns, const grpc::Status& status) {
  if (generation != generation_ || state_ == State::kOver) return;
  probe_.reset();
  // Any answer will do, also that it does not know the question; and any message of the stream.
  const bool silent = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
                      status.error_code() == grpc::StatusCode::CANCELLED;
  if (silent && reading_ && heard_ns_ == heard_ns) {
    const absl::Duration since = absl::Nanoseconds(static_cast<int64_t>(MonotonicNow() - heard_ns));
    Break(grpc::Status(
              grpc::StatusCode::UNAVAILABLE,
              absl::StrFormat("no sign of life for %.1f s, nor an answer to a second connection",
                              absl::ToDoubleSeconds(since))),
          /*fault=*/false);
  } else if (!silent) {
    alive_ns_ = MonotonicNow();
  }
  if (state_ != State::kOver) Watch();
}

void StreamedCapture::StopTimers() {
  probe_.reset();
  for (std::shared_ptr<Timer>* timer : {&watch_timer_, &ack_timer_, &retry_timer_}) {
    if (*timer != nullptr) (*timer)->Cancel();
    timer->reset();
  }
}

uint64_t StreamedCapture::ResumeDeadline() const {
  if (!broken_) return kNever;
  // What was waited for in silence counts; but it is tried once more in any case.
  const uint64_t timeout_ns = ToNs(options_.resume_timeout);
  return std::max({silent_since_ns_ + timeout_ns, planned_end_ns_ + timeout_ns,
                   break_ns_ + std::min(timeout_ns, ToNs(kLeastResumeTime))});
}

uint64_t StreamedCapture::SilenceDeadline() const {
  const bool due = state_ == State::kArmed || state_ == State::kRecording;
  if (!due || !reading_ || probe_ != nullptr) return kNever;
  return std::max(heard_ns_, alive_ns_) + ToNs(options_.timeouts.silence);
}

uint64_t StreamedCapture::StallDeadline() const {
  const bool due = state_ == State::kArmed || state_ == State::kRecording;
  return due && reading_ ? heard_ns_ + ToNs(stall_) : kNever;
}

uint64_t StreamedCapture::RepeatDeadline() const {
  return taking_ && stream_ != nullptr ? repeat_ack_ns_ : kNever;
}

uint64_t StreamedCapture::NextDeadline() const {
  if (state_ == State::kArming) return arm_deadline_ns_;
  // It ends as soon as the disk lets it, which nothing here can hasten.
  if (end_wanted_.has_value()) return kNever;
  const uint64_t last = state_ == State::kRecording ? last_deadline_ns_ : kNever;
  return std::min({last, ResumeDeadline(), SilenceDeadline(), StallDeadline(), RepeatDeadline()});
}

void StreamedCapture::Watch() {
  const uint64_t deadline_ns = NextDeadline();
  if (deadline_ns == kNever) return;
  // One that fires too early looks again: so a message that comes costs nothing here.
  if (watch_timer_ != nullptr && watch_ns_ <= deadline_ns) return;
  if (watch_timer_ != nullptr) watch_timer_->Cancel();
  watch_ns_ = deadline_ns;
  const uint64_t now_ns = MonotonicNow();
  const uint64_t wait_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
  watch_timer_ = After(absl::Nanoseconds(static_cast<int64_t>(wait_ns)) + absl::Milliseconds(1),
                       &StreamedCapture::OnWatch);
}

void StreamedCapture::OnWatch() {
  watch_timer_.reset();
  if (state_ == State::kOver) return;
  const uint64_t now_ns = MonotonicNow();
  if (state_ == State::kArming && now_ns >= arm_deadline_ns_) {
    EndArming(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "did not become ready in time"));
  } else if (state_ == State::kRecording && now_ns >= last_deadline_ns_) {
    EndIncomplete(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED,
                               "the trace did not come in time; record for a shorter time, or "
                               "raise --transfer_timeout_ms"));
  } else if (now_ns >= ResumeDeadline()) {
    const bool as_before = last_failure_ == ReasonOf(break_status_);
    EndIncomplete(grpc::Status(
        break_status_.error_code(),
        absl::StrCat("not reached again", as_before ? "" : ": ", as_before ? "" : last_failure_)));
  } else if (now_ns >= StallDeadline()) {
    const absl::Duration stall = std::exchange(stall_, stall_ * 2);
    Break(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                       absl::StrCat("nothing came for ", absl::FormatDuration(stall),
                                    ", though the worker answers another connection")),
          /*fault=*/false);
  } else if (now_ns >= SilenceDeadline()) {
    Probe();
  } else if (now_ns >= RepeatDeadline()) {
    stream_->Write(AckBytes(kind_, acknowledged_item_));
    repeat_ack_ns_ = In(options_.timeouts.repeat_ack);
  }
  if (state_ != State::kOver) Watch();
}

}  // namespace jobscope
