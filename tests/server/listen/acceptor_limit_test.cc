// SPDX-License-Identifier: Apache-2.0
//
// A job that lowers its limit on open files below what the acceptor polls.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/listen/acceptor.h"
#include "tests/server/service_fixture.h"
#include "tests/server/sockets.h"

namespace jobscope {
namespace {

absl::Duration ProcessorTime(clockid_t clock) {
  timespec time = {};
  EXPECT_EQ(clock_gettime(clock, &time), 0);
  return absl::DurationFromTimespec(time);
}

TEST(AcceptorLimitTest, AFailingPollCostsNoProcessorTime) {
  auto listener = ListenSocket::Open({"127.0.0.1:0", true}, {});
  ASSERT_TRUE(listener.ok()) << listener.status();
  const std::string address = listener->target().text;
  std::vector<ListenSocket> listeners;
  listeners.push_back(*std::move(listener));
  AcceptorLimits limits;
  limits.silence = absl::Seconds(5);
  Acceptor acceptor(std::move(listeners), limits);
  std::atomic<int> handed_over{0};
  clockid_t clock = 0;  // of the acceptor's thread
  ASSERT_TRUE(acceptor
                  .Start([&](size_t, int, int fd, bool) {
                    close(fd);
                    pthread_getcpuclockid(pthread_self(), &clock);
                    ++handed_over;
                  })
                  .ok());
  const RawConnection silent(address);
  const RawConnection first(address, "x");
  ASSERT_TRUE(Eventually([&] { return handed_over == 1; }));  // so the silent one is accepted
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  const int later = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Duration used = ProcessorTime(clock);
  // Ends the poll that began before.
  const RawConnection caller(later, address, "x");
  EXPECT_TRUE(Eventually([&] { return silent.closed(); })) << "silence has no bound";
  EXPECT_EQ(handed_over, 1);
  absl::SleepFor(absl::Seconds(1));  // of a thing that must not happen
  EXPECT_LT(ProcessorTime(clock) - used, absl::Milliseconds(250)) << "it spins";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(Eventually([&] { return handed_over == 2; }));
  acceptor.Stop();
}

}  // namespace
}  // namespace jobscope
