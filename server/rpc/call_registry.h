// SPDX-License-Identifier: Apache-2.0
//
// Tracks the calls that are open in this server: bounds their number and waits for their end.
#ifndef SERVER_RPC_CALL_REGISTRY_H_
#define SERVER_RPC_CALL_REGISTRY_H_

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/security/audit.h"

namespace jobscope {

// One open call, from the start of its method to gRPC's OnDone.
class OpenCall {
 public:
  virtual ~OpenCall() = default;
  // The server shuts down: finishes the call with UNAVAILABLE if it is not finished yet, and ends
  // what runs for it without delivering.
  virtual void Abandon() = 0;
  // Returns whether the call asked for the session of that id and peer.
  virtual bool Records(absl::string_view session_id, absl::string_view peer) const = 0;
  // Returns whether recorded data is being delivered to the call, during a session or after it.
  virtual bool Delivers() const { return false; }
};

// Registry of the open calls. Thread-safe.
class CallRegistry {
 public:
  // At most `max_calls` unanswered ones, and `max_with_answered` in all. `audit` takes a line of
  // each.
  CallRegistry(size_t max_calls, size_t max_with_answered, std::shared_ptr<AuditLog> audit)
      : max_calls_(max_calls), max_with_answered_(max_with_answered), audit_(std::move(audit)) {}

  AuditLog& audit() const { return *audit_; }

  // Admits a call. Returns RESOURCE_EXHAUSTED if too many are open, UNAVAILABLE if the server shuts
  // down.
  absl::Status Enter(std::shared_ptr<OpenCall> call);
  // The call has its status; only gRPC still uses it. Ignores calls that were not admitted.
  void Answered(const std::shared_ptr<OpenCall>& call);
  // gRPC no longer uses the call. Ignores calls that were not admitted.
  void Leave(const std::shared_ptr<OpenCall>& call);

  // Admits no call from now on.
  void Close();
  // Blocks until no call is open, at most `timeout`. Returns false if some still are.
  bool AwaitNone(absl::Duration timeout);
  // Abandons the open calls for which `keep` returns false. Returns how many were kept.
  size_t AbandonUnless(absl::FunctionRef<bool(const OpenCall&)> keep);

  size_t open() const;  // includes answered ones

 private:
  const size_t max_calls_;
  const size_t max_with_answered_;
  const std::shared_ptr<AuditLog> audit_;
  mutable absl::Mutex mutex_;
  // The open calls, and whether each is answered.
  std::unordered_map<std::shared_ptr<OpenCall>, bool> calls_ ABSL_GUARDED_BY(mutex_);
  size_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace jobscope

#endif  // SERVER_RPC_CALL_REGISTRY_H_
