// SPDX-License-Identifier: Apache-2.0
//
// One unary call of either service: answered exactly once, by whoever comes first, and audited
// then.
#ifndef SERVER_RPC_UNARY_CALL_H_
#define SERVER_RPC_UNARY_CALL_H_

#include <grpcpp/alarm.h>
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

namespace jobscope {

// The answer, the caller's leaving and the server's end may come at the same time, from different
// threads; a session's callback may come long after the call has gone. So all of them hold this
// object, which outlives gRPC's part. Thread-safe; nothing waits.
class UnaryCall : public OpenCall, public std::enable_shared_from_this<UnaryCall> {
 public:
  // Starts a call of `method` ("tensorflow.ProfilerService/Profile"). When the registry does not
  // admit it, it is already finished
  // (`open()` is false), and the method returns its reactor at once. The method must return
  // `reactor()`.
  static std::shared_ptr<UnaryCall> Start(CallRegistry* registry, absl::string_view method,
                                          grpc::CallbackServerContext* context);

  grpc::ServerUnaryReactor* reactor() const;

  const std::string& peer() const {
    return peer_;
  }  // "127.0.0.1:40123", "[::1]:40123", "unix:", "10.0.0.3:40123 (alice)"
  absl::Time deadline() const { return deadline_; }  // InfiniteFuture if the caller has none
  bool open() const;

  // What the audit line says was asked for.
  void Describe(std::string description);

  // How to end what runs for this call. Runs at most once, when the caller has gone (the call is
  // then finished with CANCELLED) or the server ends; at once, if the call is finished already.
  void OnCancel(absl::AnyInvocable<void()> cancel);

  // The session that this call has asked for: the server's end lets the one that records deliver.
  void SetSession(std::string session_id);

  // Answers. `write_response` runs only if this is the first answer and `status` is OK: gRPC's
  // response object is alive in it. `outcome` ends the audit line. Returns false, and does nothing,
  // if the call is finished already.
  bool Finish(const absl::Status& status, absl::FunctionRef<void()> write_response,
              absl::string_view outcome = {});
  bool Finish(const absl::Status& status, absl::string_view outcome = {});

  // Keeps `held`, the slot, until gRPC is done with the call: a caller that does not read its
  // answer holds memory, on top of which nobody may record. One that has not taken it after `limit`
  // is cut off. Before Finish.
  void HoldUntilSent(std::shared_ptr<void> held, absl::Duration limit);

  void Abandon() override;
  bool Records(absl::string_view session_id, absl::string_view peer) const override;

 private:
  class Reactor;

  UnaryCall(CallRegistry* registry, absl::string_view method, grpc::CallbackServerContext* context);
  // Ends what runs for this call, and finishes it.
  void End(const absl::Status& status);
  void CutOff();
  void OnDone();

  CallRegistry* const registry_;
  const std::string method_;
  const std::string peer_;
  const absl::Time deadline_;
  const absl::Time started_;
  Reactor* reactor_ =
      nullptr;  // deletes itself in OnDone, which cannot come before the call is finished

  mutable absl::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::string description_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::string> session_id_ ABSL_GUARDED_BY(mutex_);
  absl::AnyInvocable<void()> cancel_ ABSL_GUARDED_BY(mutex_);
  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(mutex_);  // null: gRPC is done with it
  std::shared_ptr<void> held_ ABSL_GUARDED_BY(mutex_);
  absl::Duration limit_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Alarm> cut_off_ ABSL_GUARDED_BY(mutex_);
};

// The codes of absl are gRPC's. The text is made printable, and fits a trailer.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace jobscope

#endif  // SERVER_RPC_UNARY_CALL_H_
