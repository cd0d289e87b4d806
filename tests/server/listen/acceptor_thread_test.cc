// SPDX-License-Identifier: Apache-2.0
//
// An acceptor that gets no thread.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/listen/acceptor.h"

extern "C" int __wrap_pthread_create(pthread_t* /*thread*/, const pthread_attr_t* /*attributes*/,
                                     void* (* /*body*/)(void*), void* /*argument*/) {
  return EAGAIN;
}

namespace jobscope {
namespace {

TEST(AcceptorThread, StopDoesNotWaitForAThreadThatHasNotStarted) {
  auto listener = ListenSocket::Open({"127.0.0.1:0", true}, {});
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::vector<ListenSocket> listeners;
  listeners.push_back(*std::move(listener));
  AcceptorLimits limits;
  limits.stop = absl::Hours(1);  // longer than a test may take
  Acceptor acceptor(std::move(listeners), limits);
  const absl::Status started = acceptor.Start([](size_t, int, int, bool) {});
  EXPECT_TRUE(absl::IsResourceExhausted(started)) << started;
  acceptor.Stop();
}

}  // namespace
}  // namespace jobscope
