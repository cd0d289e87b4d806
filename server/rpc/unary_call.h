// SPDX-License-Identifier: Apache-2.0
//
// Answers one unary call of either service exactly once, with the first answer that is given, and
// audits it then.
#ifndef SERVER_RPC_UNARY_CALL_H_
#define SERVER_RPC_UNARY_CALL_H_

#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/rpc/call_registry.h"
#include "server/rpc/grpc_timer.h"

namespace jobscope {

// Answers one call. The answer, the caller's disconnecting and the server's shutdown may happen at
// the same time, on different threads; a session's callback may run long after the call has ended.
// So each of them holds this object, which outlives gRPC's part. Thread-safe. Never blocks.
class UnaryCall : public OpenCall, public std::enable_shared_from_this<UnaryCall> {
 public:
  // Starts a call of `method` ("tensorflow.ProfilerService/Profile") and, if the registry admits
  // it, runs `body`, which answers it now or later. Returns what the method must return. If `body`
  // throws (out of memory), ends the call with RESOURCE_EXHAUSTED: gRPC would answer the caller,
  // but the call would stay registered for ever.
  static grpc::ServerUnaryReactor* Serve(
      CallRegistry* registry, absl::string_view method, grpc::CallbackServerContext* context,
      absl::FunctionRef<void(const std::shared_ptr<UnaryCall>& call)> body);

  // "127.0.0.1:40123", "[::1]:40123", "unix:", "10.0.0.3:40123 (alice)".
  const std::string& peer() const { return peer_; }
  // As DeadlineOf returns it.
  absl::Time deadline() const { return deadline_; }
  bool open() const;

  // Sets the request's description for the audit line.
  void Describe(std::string description);

  // Sets how to end what runs for this call. `cancel` runs at most once, when the caller has
  // disconnected (the call is then finished with CANCELLED), its method has thrown or the server
  // shuts down; at once if the call is already finished.
  void OnCancel(absl::AnyInvocable<void()> cancel);

  // Sets the session that this call asked for: a server that shuts down lets the recording session
  // deliver.
  void SetSession(std::string session_id);

  // Answers the call. `write_response` runs only if this is the first answer and `status` is OK:
  // gRPC's response object is valid in it. `outcome` ends the audit line. Returns false, and does
  // nothing, if the call is already finished. Throws nothing: if memory runs out, the call is
  // answered with RESOURCE_EXHAUSTED, or without the text of its status.
  bool Finish(const absl::Status& status, absl::FunctionRef<void()> write_response,
              absl::string_view outcome = {});
  bool Finish(const absl::Status& status, absl::string_view outcome = {});

  // Keeps `held`, the slot, until gRPC no longer uses the call: a caller that does not read its
  // answer holds memory, and no session may record in addition. A caller that has not taken the
  // answer after `limit` is cut off; without memory for a timer, nothing is held. Call before
  // Finish.
  void HoldUntilSent(std::shared_ptr<void> held, absl::Duration limit);

  void Abandon() override;
  bool Records(absl::string_view session_id, absl::string_view peer) const override;

 private:
  class Reactor;

  UnaryCall(CallRegistry* registry, absl::string_view method, grpc::CallbackServerContext* context);
  // A call that the registry does not admit is already finished (`open()` is false).
  static std::shared_ptr<UnaryCall> Start(CallRegistry* registry, absl::string_view method,
                                          grpc::CallbackServerContext* context);
  // Ends what runs for this call, and finishes the call. Throws nothing: gRPC calls it on its own
  // threads.
  void End(const absl::Status& status);
  // Sends the answer. Throws nothing.
  void Send(const absl::Status& status, absl::string_view description, absl::string_view outcome);
  void CutOff();
  void OnDone();

  CallRegistry* const registry_;
  const std::string method_;
  const std::string peer_;
  const absl::Time deadline_;
  const absl::Time started_;
  // Deletes itself in OnDone, which cannot come before the call is finished.
  Reactor* reactor_ = nullptr;

  mutable absl::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::string description_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::string> session_id_ ABSL_GUARDED_BY(mutex_);
  absl::AnyInvocable<void()> cancel_ ABSL_GUARDED_BY(mutex_);
  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(mutex_);  // null after OnDone
  std::shared_ptr<void> held_ ABSL_GUARDED_BY(mutex_);
  absl::Duration limit_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<GrpcTimer> cut_off_ ABSL_GUARDED_BY(mutex_);
};

// Converts a status: absl's codes are gRPC's. Makes the text printable and short enough for a
// trailer.
grpc::Status ToGrpc(const absl::Status& status);

// The same for a status that is sent next. Returns the code without texts if there is hardly any
// memory: gRPC's Finish copies the texts, and if it throws, the call stays open for ever. Throws
// nothing.
grpc::Status ToFinalStatus(const absl::Status& status);

}  // namespace jobscope

#endif  // SERVER_RPC_UNARY_CALL_H_
