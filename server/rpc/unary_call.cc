// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/unary_call.h"

#include <grpcpp/server_context.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/clock/monotonic.h"
#include "common/log/log.h"
#include "common/text/foreign_text.h"
#include "rpc/error_details.h"
#include "rpc/server_ended.h"
#include "server/limits.h"
#include "server/rpc/peer.h"
#include "server/security/audit.h"

namespace jobscope {
grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      Printable(status.message(), limits::kMaxStatusTextBytes),
                      ErrorDetails(status));
}

class UnaryCall::Reactor : public grpc::ServerUnaryReactor {
 public:
  explicit Reactor(std::shared_ptr<UnaryCall> call) : call_(std::move(call)) {}
  void OnCancel() override { call_->End(absl::CancelledError("the caller has disconnected")); }
  void OnDone() override {
    call_->OnDone();
    call_->registry_->Leave(call_);
    delete this;
  }

 private:
  const std::shared_ptr<UnaryCall> call_;
};

UnaryCall::UnaryCall(CallRegistry* registry, absl::string_view method,
                     grpc::CallbackServerContext* context)
    : registry_(registry),
      method_(method),
      peer_(PeerOf(*context)),
      deadline_(DeadlineOf(*context)),
      started_(SteadyNow()),
      context_(context) {}

std::shared_ptr<UnaryCall> UnaryCall::Start(CallRegistry* registry, absl::string_view method,
                                            grpc::CallbackServerContext* context) {
  std::shared_ptr<UnaryCall> call(new UnaryCall(registry, method, context));
  call->reactor_ = new Reactor(call);
  if (auto status = registry->Enter(call); !status.ok()) call->Finish(status);
  return call;
}

grpc::ServerUnaryReactor* UnaryCall::reactor() const { return reactor_; }

bool UnaryCall::open() const {
  absl::MutexLock lock(&mutex_);
  return !finished_;
}

void UnaryCall::Describe(std::string description) {
  absl::MutexLock lock(&mutex_);
  description_ = std::move(description);
}

void UnaryCall::OnCancel(absl::AnyInvocable<void()> cancel) {
  {
    absl::MutexLock lock(&mutex_);
    if (!finished_) {
      cancel_ = std::move(cancel);
      return;
    }
  }
  cancel();
}

bool UnaryCall::Finish(const absl::Status& status, absl::FunctionRef<void()> write_response,
                       absl::string_view outcome) {
  std::string description;
  absl::AnyInvocable<void()> cancel;  // destroyed without the lock
  {
    absl::MutexLock lock(&mutex_);
    if (finished_) return false;
    finished_ = true;
    description = std::move(description_);
    cancel = std::move(cancel_);
  }
  if (status.ok()) write_response();
  registry_->audit().Write(
      {KindOf(method_), method_, peer_, description, SteadyNow() - started_, status, outcome});
  registry_->Answered(shared_from_this());
  reactor_->Finish(ToGrpc(status));  // from here on the reactor may be gone
  absl::MutexLock lock(&mutex_);
  if (held_ == nullptr || context_ == nullptr) return true;
  cut_off_ = RunAfter(limit_, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->CutOff();
  });
  return true;
}

void UnaryCall::HoldUntilSent(std::shared_ptr<void> held, absl::Duration limit) {
  absl::MutexLock lock(&mutex_);
  held_ = std::move(held);
  limit_ = limit;
}

void UnaryCall::CutOff() {
  absl::MutexLock lock(&mutex_);
  if (context_ == nullptr) return;
  Log(LogLevel::kWarning,
      absl::StrCat(peer_, " has not received its answer to ", method_, " for ",
                   absl::FormatDuration(absl::Trunc(limit_, absl::Seconds(1))), " and is cut off"));
  // OnDone follows; if the connection itself stalls, when the connection ends.
  context_->TryCancel();
}

void UnaryCall::OnDone() {
  std::shared_ptr<void> held;  // released outside of the lock, like the alarm
  std::unique_ptr<GrpcTimer> cut_off;
  absl::MutexLock lock(&mutex_);
  context_ = nullptr;
  held.swap(held_);
  cut_off.swap(cut_off_);
}

bool UnaryCall::Finish(const absl::Status& status, absl::string_view outcome) {
  return Finish(
      status, [] {}, outcome);
}

void UnaryCall::Abandon() { End(ServerEnded()); }

void UnaryCall::SetSession(std::string session_id) {
  absl::MutexLock lock(&mutex_);
  session_id_ = std::move(session_id);
}

bool UnaryCall::Records(absl::string_view session_id, absl::string_view peer) const {
  absl::MutexLock lock(&mutex_);
  return !finished_ && session_id_ == session_id && peer_ == peer;
}

void UnaryCall::End(const absl::Status& status) {
  absl::AnyInvocable<void()> cancel;
  {
    absl::MutexLock lock(&mutex_);
    if (finished_) return;
    cancel = std::move(cancel_);
  }
  // In this order: the cancelled session would otherwise answer first, with its own status.
  Finish(status);
  if (cancel) cancel();
}

}  // namespace jobscope
