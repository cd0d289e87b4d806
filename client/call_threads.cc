// SPDX-License-Identifier: Apache-2.0
#include "client/call_threads.h"

#include <algorithm>
#include <cstddef>

namespace jobscope {
namespace {

// They also read the sockets: more than one, so that a big answer does not hold up the others.
constexpr unsigned kMaxThreads = 4;

}  // namespace

CallThreads::CallThreads() {
  const unsigned count = std::clamp(std::thread::hardware_concurrency(), 1u, kMaxThreads);
  for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this] { Serve(); });
}

CallThreads::~CallThreads() {
  queue_.Shutdown();
  for (std::thread& thread : threads_) thread.join();
}

void CallThreads::Serve() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) static_cast<Call*>(tag)->OnDone(ok);
}

}  // namespace jobscope
