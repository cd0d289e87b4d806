// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/stream_call.h"

#include <grpcpp/server_context.h>

#include <exception>
#include <utility>

#include "absl/time/clock.h"
#include "common/clock/clock.h"
#include "common/clock/monotonic.h"
#include "common/log/log.h"
#include "server/guard/resource_guard.h"
#include "server/rpc/peer.h"
#include "server/rpc/unary_call.h"
#include "server/security/audit.h"

namespace jobscope {
namespace {
constexpr absl::Duration kFinishLimit = absl::Seconds(5);
}  // namespace

class StreamCall::Bridge : public StreamCall::Reactor {
 public:
  explicit Bridge(std::shared_ptr<StreamCall> call) : call_(std::move(call)) {}
  void OnReadDone(bool ok) override {
    if (ok) call_->received_ns_ = WorkerMonotonicNs();
    call_->Post(ok ? kRead : kReadFailed);
  }
  void OnWriteDone(bool ok) override { call_->Post(ok ? kWritten : kWriteFailed); }
  void OnCancel() override { call_->Post(kCancelled); }
  void OnDone() override {
    // Called here and not by the event handler: the registry may be gone when this has returned.
    call_->registry_->Leave(call_);
    call_->Post(kDone);
    delete this;
  }

 private:
  const std::shared_ptr<StreamCall> call_;
};

StreamCall::StreamCall(CallRegistry* registry, absl::string_view method,
                       grpc::CallbackServerContext* context)
    : registry_(registry),
      method_(method),
      peer_(PeerOf(*context)),
      started_(SteadyNow()),
      context_(context) {}

StreamCall::Reactor* StreamCall::Begin() {
  bridge_ = new Bridge(shared_from_this());
  Bridge* const bridge = bridge_;
  absl::Status entered;
  try {
    entered = registry_->Enter(shared_from_this());
  } catch (const std::exception&) {  // this and its bridge own each other until it is finished
    entered = OutOfMemoryError();
  }
  if (!entered.ok()) Finish(std::move(entered));
  Post(kWake);
  return bridge;
}

void StreamCall::Wake() { PostSoon(kWake); }

void StreamCall::Abandon() { PostSoon(kServerEnds); }

void StreamCall::Post(unsigned event) {
  if (events_.Add(event)) Run();
}

void StreamCall::PostSoon(unsigned event) {
  if (!events_.AddForLater(event)) return;
  try {
    RunSoon([self = shared_from_this()] { self->Post(0); });
  } catch (const std::exception&) {  // out of memory: the next event schedules it again
    events_.NotScheduled();
  }
}

void StreamCall::Run() {
  const std::shared_ptr<StreamCall> keep = shared_from_this();
  while (const unsigned events = events_.Take()) {
    try {
      Handle(events);
    } catch (const std::exception&) {
      EndWithoutMemory();
    }
  }
}

void StreamCall::EndWithoutMemory() {
  if (finish_sent_) return;  // gRPC may have destroyed the context
  lost_ = true;
  if (!finished()) wanted_status_.emplace(absl::StatusCode::kResourceExhausted, "");
  try {
    context_->TryCancel();
  } catch (const std::exception&) {  // the status also ends the call
  }
  // A write in progress ends now, and its event sends the status.
  if (!writing_) SendStatus();
}

void StreamCall::Handle(unsigned events) {
  const bool write_ended = (events & (kWritten | kWriteFailed)) != 0;
  if (write_ended) {  // first: without this event, if a function below throws, no status is sent
    writing_ = false;
    write_buffer_.Clear();
  }
  if ((events & kCancelled) != 0) Lose();
  if (write_ended) {
    if ((events & kWriteFailed) != 0) Lose();
    if (!finished()) OnSent();
  }
  if ((events & (kRead | kReadFailed)) != 0) HandleRead(events);
  if ((events & kWake) != 0 && !finished()) OnWake();
  if ((events & kTick) != 0 && !finished()) {
    OnTick();
    if (!finished()) ArmTick();
  }
  if ((events & kServerEnds) != 0 && !finished()) OnServerEnds();
  if ((events & kCutOff) != 0 && writing_) context_->TryCancel();
  if ((events & kDone) != 0) {
    tick_.reset();
    cut_off_.reset();
    OnDone(lost_);
    return;
  }
  Advance();
}

void StreamCall::HandleRead(unsigned events) {
  reading_ = false;
  if ((events & kReadFailed) != 0) {
    read_closed_ = true;
    // Only IsCancelled distinguishes a broken stream from one that the client has closed.
    if (!finish_sent_ && context_->IsCancelled()) Lose();
    if (!finished()) OnClientClosed();
    return;
  }
  if (!finished()) OnMessage(read_buffer_, received_ns_);
  read_buffer_.Clear();
}

void StreamCall::Lose() {
  if (std::exchange(lost_, true) || finished()) return;
  OnLost();
  Finish(absl::CancelledError("the client has disconnected"));
}

void StreamCall::Finish(absl::Status status) {
  if (!wanted_status_.has_value()) wanted_status_ = std::move(status);
}

void StreamCall::Advance() {
  if (finish_sent_) return;
  if (!writing_ && !finished()) {
    grpc::ByteBuffer message;
    if (NextMessage(&message) && !finished()) {
      write_buffer_.Swap(&message);
      // Its end is handled after this. Without memory no write begins, and none is waited for.
      bridge_->StartWrite(&write_buffer_);
      writing_ = true;
    }
  }
  if (!reading_ && !read_closed_ && !finished() && WantsMessage()) {
    bridge_->StartRead(&read_buffer_);
    reading_ = true;
  }
  if (!finished()) return;
  if (writing_) {
    if (cut_off_ != nullptr) return;
    cut_off_ = RunAfter(kFinishLimit, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Post(kCutOff);
    });
    return;
  }
  SendStatus();
}

// After Finish, gRPC's part of `this` may be destroyed at any time.
void StreamCall::SendStatus() {
  finish_sent_ = true;
  tick_.reset();
  try {
    registry_->audit().Write({KindOf(method_), method_, peer_, description_, SteadyNow() - started_,
                              *wanted_status_, Outcome()});
  } catch (const std::exception&) {  // out of memory: without a line
  }
  registry_->Answered(shared_from_this());
  try {
    bridge_->Finish(ToFinalStatus(*wanted_status_));
  } catch (const std::exception&) {
    Log(LogLevel::kError, "a stream could not be finished: out of memory");
  }
}

void StreamCall::TickEvery(absl::Duration interval) {
  tick_interval_ = interval;
  ArmTick();
}

void StreamCall::ArmTick() {
  tick_.reset();
  if (tick_interval_ == absl::InfiniteDuration()) return;
  tick_ = RunAfter(tick_interval_, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Post(kTick);
  });
}

}  // namespace jobscope
