// SPDX-License-Identifier: Apache-2.0
//
// Allocations that fail on the acceptor's thread: it goes on when there is memory again.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "server/listen/acceptor.h"
#include "tests/failing_memory.h"
#include "tests/server/sockets.h"

namespace jobscope {
namespace {

TEST(AcceptorMemory, TheAcceptorGoesOn) {
  constexpr int kAll = 1'000'000;
  std::vector<ListenSocket> listeners;
  auto listener = ListenSocket::Open({"127.0.0.1:0", true}, {});
  ASSERT_TRUE(listener.ok()) << listener.status();
  const std::string address = listener->target().text;
  listeners.push_back(*std::move(listener));
  absl::Notification handed_over;
  Acceptor acceptor(std::move(listeners));
  const absl::Status started = acceptor.Start(
      [&handed_over](size_t /*listener*/, int /*listener_fd*/, int fd, bool /*admitted*/) {
        close(fd);
        handed_over.Notify();
      });
  ASSERT_TRUE(started.ok()) << started;
  FailAllocations(1, kAll);
  const RawConnection caller(address, "x");
  while (FailuresLeft() > kAll - 5) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_GT(FailuresLeft(), kAll - 1000) << "it spins";
  EXPECT_FALSE(handed_over.HasBeenNotified());
  StopFailing();
  EXPECT_TRUE(handed_over.WaitForNotificationWithTimeout(absl::Seconds(20)));
  acceptor.Stop();
}

}  // namespace
}  // namespace jobscope
