// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/grpc_timer.h"

#include <grpc/grpc.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace jobscope {
namespace {

size_t Threads() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                                           std::filesystem::directory_iterator()));
}

class GrpcTimerTest : public ::testing::Test {
 protected:
  // gRPC stays initialised, as in a server: timers that were cancelled may still expire.
  static void SetUpTestSuite() {
    grpc_init();
    RunOnGrpcsThread([] {});  // gRPC starts a thread for the first timer that expires
  }
  static void RunOnGrpcsThread(const std::function<void()>& body) {
    absl::Notification done;
    RunSoon([&] {
      body();
      done.Notify();
    });
    done.WaitForNotification();
  }
};

TEST_F(GrpcTimerTest, Runs) {
  absl::Notification ran;
  const auto timer = RunAfter(absl::Milliseconds(1), [&] { ran.Notify(); });
  EXPECT_TRUE(ran.WaitForNotificationWithTimeout(absl::Minutes(1)));
}

TEST_F(GrpcTimerTest, ItsFunctionMayDestroyIt) {
  absl::Notification ran;
  const auto timer = std::make_shared<std::unique_ptr<GrpcTimer>>();
  absl::Notification has_timer;
  *timer = RunAfter(absl::Milliseconds(1), [&, weak = std::weak_ptr(timer)] {
    has_timer.WaitForNotification();
    weak.lock()->reset();
    ran.Notify();
  });
  has_timer.Notify();
  EXPECT_TRUE(ran.WaitForNotificationWithTimeout(absl::Minutes(1)));
}

// gRPC's threads catch nothing: the process would end.
TEST_F(GrpcTimerTest, AFunctionThatThrowsIsLoggedOnceAndEndsNothingElse) {
  testing::internal::CaptureStderr();
  const auto alive = std::make_shared<int>(0);  // owned by the functions until they have ended
  for (int i = 0; i < 3; ++i) {
    RunSoon([alive] { throw std::bad_alloc(); });
    absl::Notification threw;
    const auto timer = RunAfter(absl::Milliseconds(1), [alive, &threw] {
      threw.Notify();
      throw std::bad_alloc();
    });
    EXPECT_TRUE(threw.WaitForNotificationWithTimeout(absl::Minutes(1)));
  }
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (alive.use_count() > 1 && absl::Now() < end) std::this_thread::yield();
  EXPECT_EQ(alive.use_count(), 1);
  const std::string log = testing::internal::GetCapturedStderr();
  constexpr char kLine[] = "was dropped: out of memory";
  const size_t first = log.find(kLine);
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find(kLine, first + 1), std::string::npos) << log;
}

// A stream cancels several while gRPC's executor runs its wake-up. A thread that gRPC would start
// for that may be refused, and what gRPC then queues for it never runs.
TEST_F(GrpcTimerTest, CancellingStartsNoThread) {
  RunOnGrpcsThread([] {
    const size_t threads = Threads();
    for (int i = 0; i < 8; ++i) RunAfter(absl::Seconds(4), [] {}).reset();
    EXPECT_EQ(Threads(), threads);
  });
}

TEST_F(GrpcTimerTest, ACancelledOneReleasesItsFunctionAndDoesNotRun) {
  // The second one is cancelled in gRPC, too.
  for (const absl::Duration delay : {absl::Milliseconds(20), absl::Hours(1)}) {
    const auto ran = std::make_shared<std::atomic<bool>>(false);
    RunAfter(delay, [ran] { *ran = true; }).reset();
    EXPECT_EQ(ran.use_count(), 1);
    absl::Notification later;
    const auto timer = RunAfter(absl::Milliseconds(40), [&] { later.Notify(); });
    EXPECT_TRUE(later.WaitForNotificationWithTimeout(absl::Minutes(1)));
    EXPECT_FALSE(*ran);
  }
}

}  // namespace
}  // namespace jobscope
