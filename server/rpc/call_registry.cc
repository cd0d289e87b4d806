// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/call_registry.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace jobscope {

absl::Status CallRegistry::Enter(std::shared_ptr<OpenCall> call) {
  absl::MutexLock lock(&mutex_);
  if (closed_) return absl::UnavailableError("the profiler server is shutting down");
  if (calls_.size() - answered_ >= max_calls_ || calls_.size() >= max_with_answered_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this worker has ", calls_.size(),
                     " calls open, which is its limit: wait for some to end"));
  }
  calls_.emplace(std::move(call), false);
  return absl::OkStatus();
}

void CallRegistry::Answered(const std::shared_ptr<OpenCall>& call) {
  absl::MutexLock lock(&mutex_);
  const auto found = calls_.find(call);
  if (found == calls_.end() || found->second) return;
  found->second = true;
  ++answered_;
}

void CallRegistry::Leave(const std::shared_ptr<OpenCall>& call) {
  absl::MutexLock lock(&mutex_);
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  if (found->second) --answered_;
  calls_.erase(found);
}

void CallRegistry::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

bool CallRegistry::AwaitNone(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(
      absl::Condition(
          +[](decltype(calls_)* calls) { return calls->empty(); }, &calls_),
      timeout);
}

size_t CallRegistry::AbandonUnless(absl::FunctionRef<bool(const OpenCall&)> keep) {
  std::vector<std::shared_ptr<OpenCall>> calls;
  {
    absl::MutexLock lock(&mutex_);
    calls.reserve(calls_.size());
    for (const auto& [call, answered] : calls_) calls.push_back(call);
  }
  // Not under the lock: gRPC may run OnDone, and with it Leave, inside Finish.
  size_t kept = 0;
  for (const auto& call : calls) {
    if (keep(*call)) {
      ++kept;
    } else {
      call->Abandon();
    }
  }
  return kept;
}

size_t CallRegistry::open() const {
  absl::MutexLock lock(&mutex_);
  return calls_.size();
}

}  // namespace jobscope
