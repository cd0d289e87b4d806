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
