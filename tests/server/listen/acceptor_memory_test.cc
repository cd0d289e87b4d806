// SPDX-License-Identifier: Apache-2.0
//
// Tests memory that is short on the acceptor's thread: it accepts again when memory is available.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
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

// Waits for the other side to close it.
bool Closes(const RawConnection& caller) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!caller.closed() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return caller.closed();
}

TEST(AcceptorMemory, GrpcGetsNoConnectionWithoutMemoryForIt) {
  rlimit unlimited = {};
  getrlimit(RLIMIT_AS, &unlimited);
  rlimit limited = unlimited;
  limited.rlim_cur = rlim_t{1} << 46;  // the sanitizers' shadow fits; more cannot be asked for
  if (setrlimit(RLIMIT_AS, &limited) != 0) GTEST_SKIP() << "the limit cannot be set here";
  for (const uint64_t free_bytes : {uint64_t{1} << 46, uint64_t{1} << 20}) {
    std::vector<ListenSocket> listeners;
    auto listener = ListenSocket::Open({"127.0.0.1:0", true}, {});
    ASSERT_TRUE(listener.ok()) << listener.status();
    const std::string address = listener->target().text;
    listeners.push_back(*std::move(listener));
    AcceptorLimits limits;
    limits.free_bytes = free_bytes;
    std::atomic<int> handed_over{0};
    ::testing::internal::CaptureStderr();
    Acceptor acceptor(std::move(listeners), limits);
    const absl::Status started = acceptor.Start(
        [&handed_over](size_t /*listener*/, int /*listener_fd*/, int fd, bool /*admitted*/) {
          shutdown(fd, SHUT_RDWR);
          close(fd);
          ++handed_over;
        });
    ASSERT_TRUE(started.ok()) << started;
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(Closes(RawConnection(address, "x")));
    acceptor.Stop();
    const bool has_memory = free_bytes == uint64_t{1} << 20;
    EXPECT_EQ(handed_over, has_memory ? 3 : 0);
    const std::string log = ::testing::internal::GetCapturedStderr();
    const size_t first = log.find("almost no memory left. Raise its limit (ulimit -v");
    EXPECT_EQ(first == std::string::npos, has_memory) << log;
    EXPECT_EQ(log.find("almost no memory left", first + 50), std::string::npos) << "once a minute";
  }
  setrlimit(RLIMIT_AS, &unlimited);
}

}  // namespace
}  // namespace jobscope
