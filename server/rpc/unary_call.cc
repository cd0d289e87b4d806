// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/unary_call.h"

#include <grpcpp/server_context.h>

#include <cstddef>
#include <exception>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/clock/monotonic.h"
#include "common/log/log.h"
#include "common/text/foreign_text.h"
#include "rpc/error_details.h"
#include "rpc/server_ended.h"
#include "server/guard/resource_guard.h"
#include "server/limits.h"
#include "server/rpc/peer.h"
#include "server/security/audit.h"

namespace jobscope {
namespace {

// What must be free before a call is finished, in addition to the texts of its status: far more
// than gRPC's C++ layer allocates.
constexpr size_t kFinishBytes = 4096;

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      Printable(status.message(), limits::kMaxStatusTextBytes),
                      ErrorDetails(status));
}

grpc::Status ToFinalStatus(const absl::Status& status) {
  try {
    grpc::Status final_status = ToGrpc(status);
    const size_t text_bytes =
        final_status.error_message().size() + final_status.error_details().size();
    if (HeapHas(2 * text_bytes + kFinishBytes)) return final_status;
  } catch (const std::exception&) {
    // Out of memory.
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), "");
}

class UnaryCall::Reactor : public grpc::ServerUnaryReactor {
 public:
  explicit Reactor(std::shared_ptr<UnaryCall> call) : call_(std::move(call)) {}
  void OnCancel() override {
    call_->End(StatusOrCode(absl::StatusCode::kCancelled,
                            [] { return absl::CancelledError("the caller has disconnected"); }));
  }
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
  absl::Status entered;
  try {
    entered = registry->Enter(call);
  } catch (const std::exception&) {  // `call` and its reactor own each other until it is finished
    entered = OutOfMemoryError();
  }
  if (!entered.ok()) call->Finish(entered);
  return call;
}

grpc::ServerUnaryReactor* UnaryCall::Serve(
    CallRegistry* registry, absl::string_view method, grpc::CallbackServerContext* context,
    absl::FunctionRef<void(const std::shared_ptr<UnaryCall>& call)> body) {
  const std::shared_ptr<UnaryCall> call = Start(registry, method, context);
  grpc::ServerUnaryReactor* const reactor = call->reactor_;
  if (!call->open()) return reactor;
  try {
    body(call);
  } catch (const std::exception&) {
    call->End(OutOfMemoryError());
  }
  return reactor;
}

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
  absl::Status sent = status;
  try {
    if (status.ok()) write_response();
  } catch (const std::exception&) {
    sent = OutOfMemoryError();
  }
  Send(sent, description, outcome);
  return true;
}

void UnaryCall::Send(const absl::Status& status, absl::string_view description,
                     absl::string_view outcome) {
  try {
    registry_->audit().Write(
        {KindOf(method_), method_, peer_, description, SteadyNow() - started_, status, outcome});
  } catch (const std::exception&) {
    // Out of memory: without a line.
  }
  registry_->Answered(shared_from_this());
  try {
    reactor_->Finish(ToFinalStatus(status));  // from here on the reactor may be gone
  } catch (const std::exception&) {
    Log(LogLevel::kError, "a call could not be finished: out of memory");
  }
  std::shared_ptr<void> not_held;  // released outside of the lock
  absl::MutexLock lock(&mutex_);
  if (held_ == nullptr || context_ == nullptr) return;
  cut_off_ = TryRunAfter(limit_, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->CutOff();
  });
  if (cut_off_ == nullptr) not_held.swap(held_);
}

void UnaryCall::HoldUntilSent(std::shared_ptr<void> held, absl::Duration limit) {
  absl::MutexLock lock(&mutex_);
  held_ = std::move(held);
  limit_ = limit;
}

void UnaryCall::CutOff() {
  absl::Duration limit;
  {
    absl::MutexLock lock(&mutex_);
    if (context_ == nullptr) return;
    // OnDone follows; if the connection itself stalls, when the connection ends.
    context_->TryCancel();
    limit = limit_;
  }
  Log(LogLevel::kWarning,
      absl::StrCat(peer_, " has not received its answer to ", method_, " for ",
                   absl::FormatDuration(absl::Trunc(limit, absl::Seconds(1))), " and is cut off"));
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

void UnaryCall::Abandon() { End(StatusOrCode(absl::StatusCode::kUnavailable, &ServerEnded)); }

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
  try {
    if (cancel) cancel();
  } catch (const std::exception&) {
    Log(LogLevel::kError, "what ran for a call could not be ended: out of memory");
  }
}

}  // namespace jobscope
