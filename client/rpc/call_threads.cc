// SPDX-License-Identifier: Apache-2.0
#include "client/rpc/call_threads.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <cstddef>

namespace jobscope {
namespace {

// These threads also read the sockets: more than one, so that a big answer does not delay the
// others.
constexpr unsigned kMaxThreads = 4;

// A timer that fires so much after it was due shows that events wait in the queue.
constexpr uint64_t kLateNs = 500'000'000;

}  // namespace

CallThreads::CallThreads()
    : engine_(grpc::CreateChannel("unix:unused", grpc::InsecureChannelCredentials())) {
  const unsigned count = std::clamp(std::thread::hardware_concurrency(), 1u, kMaxThreads);
  for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this] { Serve(); });
}

void CallThreads::AwaitUnused() {
  const auto unused = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return leases_ == 0; };
  const absl::MutexLock lock(&mutex_, absl::Condition(&unused));
}

void CallThreads::NoteTimer(uint64_t due_ns, uint64_t now_ns) {
  if (now_ns < due_ns + kLateNs) return;
  uint64_t last_ns = last_late_ns_.load(std::memory_order_relaxed);
  while (last_ns < now_ns &&
         !last_late_ns_.compare_exchange_weak(last_ns, now_ns, std::memory_order_relaxed)) {
  }
}

CallThreads::~CallThreads() {
  AwaitUnused();
  queue_.Shutdown();
  for (std::thread& thread : threads_) thread.join();
}

CallThreads::Lease::Lease(CallThreads* threads) : threads_(threads) {
  const absl::MutexLock lock(&threads_->mutex_);
  ++threads_->leases_;
}

CallThreads::Lease::~Lease() {
  const absl::MutexLock lock(&threads_->mutex_);
  --threads_->leases_;
}

void CallThreads::Serve() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) static_cast<Call*>(tag)->OnDone(ok);
}

}  // namespace jobscope
