// SPDX-License-Identifier: Apache-2.0
#include "client/rpc/call_threads.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/rpc/completion.h"
#include "common/process/headroom.h"
#include "common/threads/worker_thread.h"

namespace jobscope {
namespace {

// These threads also read the sockets: more than one, so that a big answer does not delay the
// others.
constexpr unsigned kMaxThreads = 4;

// A capture of one worker has 15 at a time on two processors, gRPC's included.
constexpr size_t kClientThreads = 20;

// glibc reserves 64 MiB for the heap of each thread. With up to 500 MiB a capture was sometimes
// aborted, with 600 never.
constexpr uint64_t kHeapsBytes = uint64_t{640} << 20;

unsigned Cores() { return std::max(std::thread::hardware_concurrency(), 1u); }

unsigned ThreadsWanted() { return std::min(Cores(), kMaxThreads); }

absl::Status TooFewThreads(size_t free, size_t needed) {
  return absl::ResourceExhaustedError(absl::StrCat(
      free, " threads can be created, and ", needed,
      " are needed; raise the limit on threads (ulimit -u, pids.max of the cgroup) or on address "
      "space (ulimit -v)"));
}

}  // namespace

absl::Status EnsureThreads() {
  if (!HasMemory(kHeapsBytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "its threads reserve up to ", kHeapsBytes >> 20,
        " MiB of address space for their heaps, and those cannot be mapped; raise the limit on "
        "address space (ulimit -v)"));
  }
  const size_t free = FreeThreads(kClientThreads);
  return free < kClientThreads ? TooFewThreads(free, kClientThreads) : absl::OkStatus();
}

CallThreads::CallThreads()
    : engine_(grpc::CreateChannel("unix:unused", grpc::InsecureChannelCredentials())) {
  while (threads_.size() < ThreadsWanted() && threads_.Start([this] { Serve(); })) {
  }
  if (threads_.size() == 0) started_ = TooFewThreads(0, ThreadsWanted());
}

void CallThreads::AwaitUnused() {
  const auto unused = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return leases_ == 0; };
  const absl::MutexLock lock(&mutex_, absl::Condition(&unused));
}

CallThreads::~CallThreads() {
  AwaitUnused();
  timers_.Stop();
  queue_.Shutdown();
  threads_.Join();
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
  while (queue_.Next(&tag, &ok)) static_cast<Completion*>(tag)->OnDone(ok);
}

}  // namespace jobscope
