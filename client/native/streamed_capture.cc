// SPDX-License-Identifier: Apache-2.0
#include "client/native/streamed_capture.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/native/stream_end.h"
#include "client/native/wire/native_messages.h"
#include "client/native/wire/worker_message.h"
#include "client/worker/worker_outcome.h"
#include "common/clock/monotonic.h"
#include "common/process/pid_space.h"
#include "rpc/server_ended.h"

namespace jobscope {

StreamedCapture::StreamedCapture(StreamedCaptureOptions options, CallThreads* threads,
                                 WritePool* disk)
    : lease_(threads), options_(std::move(options)), threads_(threads), disk_(disk) {}

// ---- requests of the fan-out ----

void StreamedCapture::Arm(std::shared_ptr<grpc::Channel> channel, const ArmCall& call,
                          WorkerEvents events) {
  strand_.Post(
      [self = shared_from_this(), channel = std::move(channel), call,
       events = std::move(events)]() mutable { self->DoArm(channel, call, std::move(events)); });
}

void StreamedCapture::Start(const StartCall& call) {
  strand_.Post([self = shared_from_this(), call] { self->DoStart(call); });
}

void StreamedCapture::Finish() {
  strand_.Post([self = shared_from_this()] { self->DoFinish(); });
}

void StreamedCapture::Cancel() {
  strand_.Post([self = shared_from_this()] { self->DoCancel(); });
}

void StreamedCapture::DoArm(const std::shared_ptr<grpc::Channel>& channel, const ArmCall& call,
                            WorkerEvents events) {
  state_ = State::kArming;
  reports_.SetEvents(std::move(events));
  const std::shared_ptr<StreamedCapture> self = shared_from_this();
  stream_.emplace(options_.stream, threads_, &strand_,
                  std::shared_ptr<ResumableStream::Owner>(self, this));
  arm_timer_.emplace(threads_, &strand_, self);
  arm_timer_->Start(call.timeout, [this] {
    EndArming(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "did not become ready in time"));
  });
  const std::string message = ArmBytes(call);
  arm_sent_ns_ = MonotonicNow();
  stream_->Open(channel, message);
}

void StreamedCapture::DoStart(const StartCall& call) {
  if (state_ != State::kArmed) return;  // it ended meanwhile, and reported it
  state_ = State::kRecording;
  capture_.start = call;
  if (!call.clock.has_value()) capture_.start.start_monotonic_ns = MonotonicNow();
  planned_end_ns_ = capture_.start.start_monotonic_ns + DurationNs(call.duration);
  const std::shared_ptr<StreamedCapture> self = shared_from_this();
  items_.emplace(std::make_shared<ItemReceiver>(options_.spool_directory, options_.max_trace_bytes,
                                                options_.receive_limits),
                 disk_, &strand_, self);
  acknowledger_.emplace(options_.stream.timeouts.repeat_ack, &*stream_, threads_, &strand_, self);
  stream_->SetPlannedEnd(planned_end_ns_);
  stream_->Write(StartBytes(call));
  transfer_deadline_.emplace(planned_end_ns_, call.transfer, threads_, &strand_, self,
                             [this] { OnTransferTimeout(); });
}

void StreamedCapture::DoFinish() {
  if (state_ != State::kRecording) return;
  planned_end_ns_ = std::min(planned_end_ns_, MonotonicNow());
  stream_->SetPlannedEnd(planned_end_ns_);
  if (!std::exchange(finish_wanted_, true)) {
    stream_->Write(FinishBytes(stream_->kind(), /*abandon=*/false));
  }
  transfer_deadline_->OnFinish();
}

void StreamedCapture::DoCancel() {
  const grpc::Status cancelled(grpc::StatusCode::CANCELLED, "interrupted");
  if (state_ == State::kArming) {
    EndArming(cancelled);
  } else if (state_ == State::kArmed || state_ == State::kRecording) {
    End(cancelled, /*with_delivery=*/false);
  }
}

// ---- messages from the worker ----

void StreamedCapture::OnMessage(const std::shared_ptr<grpc::ByteBuffer>& message) {
  if (HoldsItems(*message)) {
    TakeItems(message);
    return;
  }
  absl::StatusOr<WorkerMessage> read = ReadWorkerMessage(*message);
  if (!read.ok()) {
    OnFault(read.status());
    return;
  }
  std::visit([this](auto&& known) { On(std::forward<decltype(known)>(known)); }, *std::move(read));
  if (state_ != State::kOver) stream_->Read();
}

void StreamedCapture::On(v1::Armed armed) {
  if (state_ != State::kArming) return;
  state_ = State::kArmed;
  arm_timer_->Stop();
  stream_->WatchSilence();
  capture_key_ = armed.capture_key();
  arm_clock_ = ClockOf(armed, arm_sent_ns_);
  reports_.Armed(std::move(armed));
}

void StreamedCapture::On(v1::Started started) {
  if (state_ == State::kRecording) reports_.Started(std::move(started));
}

void StreamedCapture::On(v1::Progress progress) {
  if (state_ != State::kArming) reports_.Progress(std::move(progress), MonotonicNow());
}

void StreamedCapture::On(const v1::Ended& ended) {
  if (state_ == State::kArming) {
    EndArming(StatusOf(ended));
  } else if (state_ != State::kRecording) {
    End(StatusOf(ended), /*with_delivery=*/false);
  } else if (ended.code() == 0) {
    capture_.announced_last_item = ended.last_item();
    acknowledger_->Send();
    End(grpc::Status::OK, /*with_delivery=*/true);
  } else {
    capture_.orderly_end = true;
    EndIncomplete(StatusOf(ended));
  }
}

void StreamedCapture::TakeItems(const std::shared_ptr<grpc::ByteBuffer>& message) {
  if (state_ != State::kRecording) {
    OnFault(absl::InvalidArgumentError("the worker sent items before the start"));
    return;
  }
  acknowledger_->OnTaking();
  items_->Take(message, [this, generation = stream_->generation()](const absl::Status& status,
                                                                   bool advanced) {
    OnTaken(generation, status, advanced);
  });
}

void StreamedCapture::OnTaken(uint64_t generation, const absl::Status& status, bool advanced) {
  if (state_ == State::kOver) return;
  if (!items_->disk_error().ok()) {
    End(grpc::Status::OK, /*with_delivery=*/true);
    return;
  }
  const ReceivedItems& received = items_->received();
  if (advanced) {
    faults_ = 0;
    stream_->ResetBackoff();
  }
  transfer_deadline_->OnReceived(received.bytes);
  if (end_wanted_.has_value()) {
    if (!EndWith(*end_wanted_)) EndIncomplete(*end_wanted_);
    return;
  }
  if (absl::IsOutOfRange(status)) {
    capture_.orderly_end = true;
    EndIncomplete(
        grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, std::string(status.message())));
    return;
  }
  if (received.limited() && !finish_wanted_) {
    reports_.Note(absl::StrCat(received.limit_reached, "; recording ends"));
    DoFinish();
  }
  acknowledger_->OnTaken(received);
  if (generation != stream_->generation()) return;
  if (status.ok()) {
    stream_->Read();
  } else {
    OnFault(status);
  }
}

// ---- loss of the stream ----

bool StreamedCapture::EndWith(const grpc::Status& status) {
  if (state_ == State::kArming) {
    EndArming(status);
  } else if (state_ == State::kArmed) {
    End(status, /*with_delivery=*/false);
  } else if (state_ == State::kRecording && items_->received().summary_item != 0) {
    // Only the final message is missing.
    End(grpc::Status::OK, /*with_delivery=*/true);
  }
  return state_ != State::kRecording;
}

void StreamedCapture::OnFault(const absl::Status& fault) {
  const grpc::Status status(grpc::StatusCode::INTERNAL, std::string(fault.message()));
  if (EndWith(status)) return;
  // Retries once after an invalid message: the network may have damaged it.
  if (++faults_ > 1) {
    EndIncomplete(status);
  } else {
    stream_->Retry(status, items_->received().bytes);
  }
}

void StreamedCapture::OnLost(const grpc::Status& status) {
  if (EndWith(status)) return;
  const auto& process_id = capture_.start.process_id;
  if (IsServerEnded(status)) {
    capture_.orderly_end = true;
    EndIncomplete(status);
  } else if (process_id.has_value() && HasEnded(*process_id)) {
    EndIncomplete(grpc::Status(
        status.error_code(),
        absl::StrCat(ReasonOf(status), "; its process, pid ", *process_id, ", has ended")));
  } else if (IsRefusal(status)) {
    EndIncomplete(status);
  } else {
    stream_->Retry(status, items_->received().bytes);
  }
}

std::vector<std::string> StreamedCapture::ResumeMessages() {
  const ReceivedItems& received = items_->received();
  acknowledger_->OnResumed();
  std::vector<std::string> messages = {
      ResumeBytes(capture_key_, received.last_item + 1, received.partial_bytes)};
  if (finish_wanted_) messages.push_back(FinishBytes(ItemStream::kFetch, /*abandon=*/false));
  return messages;
}

// ---- the end ----

void StreamedCapture::EndArming(const grpc::Status& status) {
  state_ = State::kOver;
  Close(/*abandon=*/true);
  reports_.Refused(status);
}

void StreamedCapture::OnTransferTimeout() {
  if (items_->taking()) {
    // The client's own disk is late, and the worker holds the rest of the trace.
    transfer_deadline_->Postpone();
    return;
  }
  EndIncomplete(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED,
                             "the trace did not arrive in time; record for a shorter time, or "
                             "raise --transfer_timeout_ms"));
}

void StreamedCapture::EndIncomplete(const grpc::Status& status) {
  if (items_->taking()) {
    if (!end_wanted_.has_value()) end_wanted_ = status;
    return;
  }
  End(stream_->outages().WithCause(status), items_->received().events > 0);
}

void StreamedCapture::End(const grpc::Status& status, bool with_delivery) {
  state_ = State::kOver;
  std::unique_ptr<Delivery> delivery;
  if (with_delivery) delivery = MakeDelivery(status);
  const bool disk_failed = items_.has_value() && !items_->taking() && !items_->disk_error().ok();
  Close(/*abandon=*/!status.ok() || disk_failed);
  reports_.Ended(status, std::move(delivery));
}

std::unique_ptr<Delivery> StreamedCapture::MakeDelivery(const grpc::Status& status) {
  const Outages& outages = stream_->outages();
  items_->MoveTo(&capture_);
  capture_.status = status;
  capture_.after_end = (outages.ongoing() ? outages.since_ns() : MonotonicNow()) >= planned_end_ns_;
  capture_.breaks = outages.count();
  capture_.outage = outages.total();
  capture_.part_limit_bytes = options_.part_limit_bytes;
  return std::make_unique<SpoolDelivery>(std::move(capture_));
}

void StreamedCapture::Close(bool abandon) {
  arm_timer_->Stop();
  if (transfer_deadline_.has_value()) transfer_deadline_->Stop();
  if (acknowledger_.has_value()) acknowledger_->Stop();
  stream_->Close(abandon);
}

}  // namespace jobscope
