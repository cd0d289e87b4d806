// SPDX-License-Identifier: Apache-2.0
//
// The calls that are open in this server: bounded in number, waited for at its end.
#ifndef SERVER_RPC_CALL_REGISTRY_H_
#define SERVER_RPC_CALL_REGISTRY_H_

#include <cstddef>
#include <memory>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace jobscope {

// One open call, from its method to gRPC's OnDone.
class OpenCall {
 public:
  virtual ~OpenCall() = default;
  // Finishes the call with UNAVAILABLE, if it is not finished yet, and ends what runs for it
  // without delivering: the server ends.
  virtual void Abandon() = 0;
  // Whether it asked for the session of that id and peer.
  virtual bool Records(absl::string_view session_id, absl::string_view peer) const = 0;
  // Whether what was recorded for it is on its way to it, with a session or after it.
  virtual bool Delivers() const { return false; }
};

// Thread-safe.
class CallRegistry {
 public:
  // At most `max_calls` that are not answered, and `max_with_answered` in all.
  CallRegistry(size_t max_calls, size_t max_with_answered)
      : max_calls_(max_calls), max_with_answered_(max_with_answered) {}

  // Admits a call. RESOURCE_EXHAUSTED: too many are open. UNAVAILABLE: the server ends.
  absl::Status Enter(std::shared_ptr<OpenCall> call);
  // It has its status, and only gRPC still has to do with it. Calls that were not admitted are
  // ignored.
  void Answered(const std::shared_ptr<OpenCall>& call);
  // gRPC is done with it. Calls that were not admitted are ignored.
  void Leave(const std::shared_ptr<OpenCall>& call);

  // Admits none from now on.
  void Close();
  // Waits until none is open, at most `timeout`. False: some still are.
  bool AwaitNone(absl::Duration timeout);
  // Abandons those that are open and for which `keep` is false. Returns how many were kept.
  size_t AbandonUnless(absl::FunctionRef<bool(const OpenCall&)> keep);

  size_t open() const;  // with those that are answered

 private:
  const size_t max_calls_;
  const size_t max_with_answered_;
  mutable absl::Mutex mutex_;
  // And whether each is answered.
  std::unordered_map<std::shared_ptr<OpenCall>, bool> calls_ ABSL_GUARDED_BY(mutex_);
  size_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace jobscope

#endif  // SERVER_RPC_CALL_REGISTRY_H_
