// SPDX-License-Identifier: Apache-2.0
#include "server/native/capture_stream.h"

#include <grpcpp/server_context.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "common/clock/monotonic.h"
#include "common/log/log.h"
#include "common/options/recording_options.h"
#include "rpc/server_ended.h"
#include "server/native/capture_response.h"
#include "server/native/native_validation.h"
#include "server/rpc/peer.h"
#include "server/rpc/raw_message.h"

namespace jobscope {
namespace {

using Phase = NativeCapture::Phase;

// How long `arm` waits for an earlier session that is being set up. It waits only a moment for a
// session that only delivers, and not at all for one that records (SessionManager).
constexpr absl::Duration kMaxQueueTime = absl::Seconds(30);

absl::Status OutOfOrder(absl::string_view got, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("`", got, "` came ", why));
}

}  // namespace

CaptureStream::CaptureStream(const ServiceContext& service,
                             std::shared_ptr<NativeCaptures> captures, bool fetches,
                             absl::string_view method, grpc::CallbackServerContext* context)
    : StreamCall(service.calls, method, context),
      service_(service),
      captures_(std::move(captures)),
      fetches_(fetches),
      deadline_(DeadlineOf(*context)) {}

StreamCall::Reactor* CaptureStream::Capture(const ServiceContext& service,
                                            std::shared_ptr<NativeCaptures> captures,
                                            grpc::CallbackServerContext* context) {
  const std::shared_ptr<CaptureStream> stream(new CaptureStream(
      service, std::move(captures), false, "jobscope.v1.Profiler/Capture", context));
  return stream->Begin();
}

StreamCall::Reactor* CaptureStream::Fetch(const ServiceContext& service,
                                          std::shared_ptr<NativeCaptures> captures,
                                          grpc::CallbackServerContext* context) {
  const std::shared_ptr<CaptureStream> stream(
      new CaptureStream(service, std::move(captures), true, "jobscope.v1.Profiler/Fetch", context));
  return stream->Begin();
}

// ---- messages from the client ----

void CaptureStream::OnMessage(const grpc::ByteBuffer& message, uint64_t /*received_ns*/) {
  // Another stream has taken over the capture: ignores what still arrives here.
  if (capture_ != nullptr && !capture_->Look(id_).stream_status.ok()) return;
  const absl::Status status = fetches_ ? OnFetchRequest(message) : OnCaptureRequest(message);
  if (status.ok()) return;
  if (capture_ != nullptr) {
    // Ends the capture without delivering its items.
    capture_->Drop(absl::Status(status.code(),
                                absl::StrCat("its client broke the protocol: ", status.message())));
  }
  Finish(status);
}

absl::Status CaptureStream::OnCaptureRequest(const grpc::ByteBuffer& message) {
  v1::CaptureRequest request;
  if (auto status = ParseRequest(message, &request); !status.ok()) return status;
  switch (request.message_case()) {
    case v1::CaptureRequest::kArm:
      return OnArm(request.arm());
    case v1::CaptureRequest::kStart:
      return OnStart(request.start());
    case v1::CaptureRequest::kAck:
      return OnAck(request.ack());
    case v1::CaptureRequest::kFinish:
      return OnFinish(request.finish());
    case v1::CaptureRequest::MESSAGE_NOT_SET:
      break;
  }
  ++unknown_requests_;
  return absl::OkStatus();
}

absl::Status CaptureStream::OnFetchRequest(const grpc::ByteBuffer& message) {
  v1::FetchRequest request;
  if (auto status = ParseRequest(message, &request); !status.ok()) return status;
  switch (request.message_case()) {
    case v1::FetchRequest::kResume:
      return OnResume(request.resume());
    case v1::FetchRequest::kAck:
      return OnAck(request.ack());
    case v1::FetchRequest::kFinish:
      return OnFinish(request.finish());
    case v1::FetchRequest::MESSAGE_NOT_SET:
      break;
  }
  ++unknown_requests_;
  return absl::OkStatus();
}

absl::Status CaptureStream::OnArm(const v1::Arm& request) {
  if (capture_ != nullptr) return OutOfOrder("arm", "twice: a stream is one capture");
  arm_received_ns_ = WorkerMonotonicNs();
  CallContext context;
  context.peer = peer();
  context.store_bytes = service_.store_bytes;
  context.ceilings = service_.ceilings;
  auto options = ValidateArm(request, context);
  if (!options.ok()) return options.status();
  if (auto status = service_.rate->Take(SteadyNow()); !status.ok()) return status;
  Describe(absl::StrCat("session \"", options->session_id, "\", levels ",
                        LevelsText(options->recording), request.by_steps() ? ", by steps" : "",
                        ", lookback ", absl::FormatDuration(options->lookback)));
  wanted_lookback_ = options->lookback;
  writer_ = ItemWriter(request.chunks());
  by_steps_ = request.by_steps();
  // Also handles a wake-up for which memory ran out. Before the capture is made, which would be
  // left behind if this throws.
  TickEvery(captures_->limits().armed_tick);
  auto capture = captures_->New(*std::move(options));
  if (!capture.ok()) return capture.status();
  capture_ = *std::move(capture);
  id_ = capture_->Submit(shared_from_this(), std::min(deadline_, SteadyNow() + kMaxQueueTime));
  return absl::OkStatus();
}

absl::Status CaptureStream::OnStart(const v1::Start& request) {
  if (armed_ns_ == 0) return OutOfOrder("start", "before `armed`");
  if (start_seen_) return OutOfOrder("start", "twice");
  StartContext context;
  context.monotonic_ns = WorkerMonotonicNs();
  context.realtime_ns = RealtimeNs();
  context.wanted_lookback = wanted_lookback_;
  context.granted_lookback = capture_->armed().lookback;
  context.max_duration_ms = service_.ceilings.duration_ms;
  auto command = ValidateStart(request, context);
  if (!command.ok()) return command.status();
  start_seen_ = true;
  delivering_.Set(capture_);
  capture_->Start(*std::move(command));
  return absl::OkStatus();
}

absl::Status CaptureStream::OnResume(const v1::Resume& request) {
  if (capture_ != nullptr) return OutOfOrder("resume", "twice");
  if (auto status = ValidateResume(request); !status.ok()) return status;
  auto capture = captures_->Find(request.capture_key());
  if (!capture.ok()) return capture.status();
  Describe(
      absl::StrCat("session \"", (*capture)->session_id(), "\" from item ", request.next_item()));
  const auto id = (*capture)->Resume(shared_from_this(), request.next_item());
  if (!id.ok()) return id.status();
  capture_ = *std::move(capture);
  id_ = *id;
  writer_ = ItemWriter(request.chunks(), request.next_item(), request.next_offset());
  watch_ = TransferWatch(request.next_item() - 1);
  start_seen_ = true;
  armed_ns_ = MonotonicNow();
  watch_.OnSent(armed_ns_);
  TickEvery(captures_->limits().recording_tick);
  delivering_.Set(capture_);
  return absl::OkStatus();
}

absl::Status CaptureStream::OnAck(const v1::Ack& request) {
  if (!start_seen_) return OutOfOrder("ack", fetches_ ? "before `resume`" : "before `start`");
  auto status = capture_->Acknowledge(id_, request.through());
  if (!status.ok()) return status;
  watch_.OnAcknowledged(request.through(), MonotonicNow());
  FinishIfComplete(capture_->Look(id_));
  return absl::OkStatus();
}

absl::Status CaptureStream::OnFinish(const v1::Finish& request) {
  if (capture_ == nullptr)
    return OutOfOrder("finish", fetches_ ? "before `resume`" : "before `arm`");
  if (request.abandon()) {
    capture_->Drop(absl::CancelledError("abandoned by its client"));
  } else if (start_seen_) {
    capture_->Finish();
  } else {
    capture_->Drop(absl::CancelledError("ended by its client before the start"));
  }
  return absl::OkStatus();
}

void CaptureStream::OnClientClosed() {
  client_closed_ = true;
  if (capture_ == nullptr) {
    Finish(absl::FailedPreconditionError(absl::StrCat(
        "the stream was closed before its first message, `", fetches_ ? "resume`" : "arm`")));
  } else if (!start_seen_) {
    capture_->Drop(absl::CancelledError("its client closed the stream before the start"));
  } else {
    FinishIfComplete(capture_->Look(id_));
  }
}

// ---- messages of the capture ----

bool CaptureStream::NextMessage(grpc::ByteBuffer* message) {
  if (capture_ == nullptr || ended_sent_) return false;
  const NativeCapture::Snapshot snapshot = capture_->Look(id_);
  if (!snapshot.stream_status.ok() || snapshot.phase == Phase::kArming) return false;
  if (armed_ns_ == 0) {
    // Refused: no capture exists.
    if (snapshot.phase == Phase::kOver && !snapshot.result.ok()) {
      if (absl::IsAlreadyExists(snapshot.result)) service_.rate->GiveBack();
      Finish(snapshot.result);
      return false;
    }
    WriteArmed(message);
    return true;
  }
  if (!started_sent_ && snapshot.recording) {
    started_sent_ = true;
    TickEvery(captures_->limits().recording_tick);
    WriteResponse(StartedResponse(snapshot.started), message);
    return true;
  }
  if (progress_due_ && snapshot.phase != Phase::kOver) {
    progress_due_ = false;
    WriteResponse(ProgressResponse(*capture_), message);
    return true;
  }
  // Collectors may declare names while they arm; the client accepts items only after its `start`.
  if (snapshot.commanded && !snapshot.dropped && WriteItems(message)) return true;
  if (snapshot.phase != Phase::kOver) return false;
  WriteEnded(snapshot, message);
  return true;
}

void CaptureStream::WriteArmed(grpc::ByteBuffer* message) {
  armed_ns_ = MonotonicNow();
  watch_.OnSent(armed_ns_);
  const NativeCaptureLimits& limits = captures_->limits();
  TickEvery(by_steps_ ? limits.steps_tick : limits.armed_tick);
  WriteResponse(ArmedResponse(*capture_, arm_received_ns_), message);
}

bool CaptureStream::WriteItems(grpc::ByteBuffer* message) {
  const std::vector<xspace::HeldItem> items = capture_->NextItems(id_, writer_.next(), items_due_);
  if (items.empty()) {
    items_due_ = false;
    return false;
  }
  writer_.Write(items, message);
  return true;
}

void CaptureStream::WriteEnded(const NativeCapture::Snapshot& snapshot, grpc::ByteBuffer* message) {
  ended_sent_ = true;
  const v1::CaptureResponse response = EndedResponse(snapshot, writer_);
  if (writer_.left_out() > 0 && response.ended().code() == 0) {
    Log(LogLevel::kWarning, absl::StrCat("a native capture: ", response.ended().reason()));
  }
  WriteResponse(response, message);
}

void CaptureStream::OnSent() {
  watch_.OnSent(MonotonicNow());
  if (ended_sent_) FinishIfComplete(capture_->Look(id_));
}

// Called after `ended`. A client that cannot acknowledge any more has everything once the stream
// has ended well: see OnDone.
void CaptureStream::FinishIfComplete(const NativeCapture::Snapshot& snapshot) {
  if (!ended_sent_ || finished()) return;
  if (!snapshot.stream_status.ok()) {
    Finish(snapshot.stream_status);
    return;
  }
  if (!snapshot.commanded || snapshot.dropped || snapshot.acknowledged >= snapshot.last_item) {
    capture_->Complete(id_);
    Finish(absl::OkStatus());
  } else if (client_closed_) {
    Finish(absl::OkStatus());
  }
}

// ---- events of the stream ----

void CaptureStream::OnWake() {
  if (capture_ == nullptr) return;
  const NativeCapture::Snapshot snapshot = capture_->Look(id_);
  if (!snapshot.stream_status.ok()) Finish(snapshot.stream_status);
}

void CaptureStream::OnTick() {
  const NativeCapture::Snapshot snapshot = capture_->Look(id_);
  const uint64_t now_ns = MonotonicNow();
  const NativeCaptureLimits& limits = captures_->limits();
  if (snapshot.phase == Phase::kArmed || snapshot.phase == Phase::kStarted) progress_due_ = true;
  items_due_ = true;
  if (!start_seen_ && armed_ns_ != 0 &&
      absl::Nanoseconds(static_cast<int64_t>(now_ns - armed_ns_)) > limits.armed) {
    capture_->Drop(absl::DeadlineExceededError(absl::StrCat(
        "the capture was armed for ", absl::FormatDuration(limits.armed), " and not started")));
  }
  if (snapshot.phase != Phase::kOver) return;
  watch_.OnOver(now_ns);
  // Keeps the items, but the next capture may start, which discards them.
  if (watch_.Stalled(now_ns) > limits.stall) capture_->YieldSlot();
  if (watch_.Silent(now_ns) > limits.hold) {
    Finish(absl::DeadlineExceededError(
        absl::StrCat("the capture has ended, and its client has received nothing of it for ",
                     absl::FormatDuration(limits.hold))));
    capture_->Drop(absl::DeadlineExceededError("its client stopped receiving it"));
  }
}

void CaptureStream::OnLost() {
  if (capture_ != nullptr) capture_->Detach(id_);
}

void CaptureStream::OnServerEnds() {
  if (ended_sent_) {
    Finish(absl::OkStatus());
    return;
  }
  Finish(ServerEnded());
  if (capture_ != nullptr) capture_->Detach(id_);
}

void CaptureStream::OnDone(bool lost) {
  delivering_.Set(nullptr);
  if (capture_ == nullptr) return;
  // For a stream that ended for another reason these have no effect any more.
  if (!lost && ended_sent_) {
    capture_->Complete(id_);
  } else {
    capture_->Detach(id_);
  }
  capture_ = nullptr;
}

std::string CaptureStream::Outcome() const {
  if (capture_ == nullptr) return {};
  return absl::StrCat(writer_.bytes(), " bytes, ", writer_.items(), " items",
                      fetches_ ? absl::StrCat(", resumed at item ", writer_.first()) : "",
                      unknown_requests_ == 0
                          ? ""
                          : absl::StrCat(", ", unknown_requests_, " requests of unknown kinds"),
                      ended_sent_ ? "" : ", incomplete");
}

}  // namespace jobscope
