// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/restartable_timer.h"

#include <grpc/grpc.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace jobscope {
namespace {

class RestartableTimerTest : public ::testing::Test {
 protected:
  // gRPC stays initialised, as in a server: timers that were cancelled may still expire.
  static void SetUpTestSuite() { grpc_init(); }

  // Starts the timer and waits until its function runs. Returns the number that it receives.
  uint64_t NumberOfOneThatRuns() {
    struct Run {
      uint64_t number = 0;
      absl::Notification done;
    };
    const auto run = std::make_shared<Run>();
    EXPECT_TRUE(timer_.Start(absl::Milliseconds(1), [run](uint64_t number) {
      run->number = number;
      run->done.Notify();
    }));
    run->done.WaitForNotification();
    return run->number;
  }

  RestartableTimer timer_;
};

TEST_F(RestartableTimerTest, TheFunctionReceivesTheCurrentNumber) {
  const uint64_t first = NumberOfOneThatRuns();
  EXPECT_TRUE(timer_.IsCurrent(first));
  const uint64_t second = NumberOfOneThatRuns();
  EXPECT_TRUE(timer_.IsCurrent(second));
  EXPECT_FALSE(timer_.IsCurrent(first));
}

TEST_F(RestartableTimerTest, AFunctionThatWasReplacedWhileItRanFindsItsNumberVoid) {
  const uint64_t number = NumberOfOneThatRuns();
  EXPECT_TRUE(timer_.Start(absl::Hours(1), [](uint64_t) {}));
  EXPECT_FALSE(timer_.IsCurrent(number));
}

TEST_F(RestartableTimerTest, AFunctionThatWasCancelledWhileItRanFindsItsNumberVoid) {
  const uint64_t number = NumberOfOneThatRuns();
  EXPECT_NE(timer_.Cancel(), nullptr);
  EXPECT_FALSE(timer_.IsCurrent(number));
  EXPECT_EQ(timer_.Cancel(), nullptr);
}

// A cancelled timer releases its function at once, hours before it is due.
TEST_F(RestartableTimerTest, CancelReleasesTheFunction) {
  const auto used = std::make_shared<int>();
  EXPECT_TRUE(timer_.Start(absl::Hours(1), [used](uint64_t) {}));
  EXPECT_GT(used.use_count(), 1);
  timer_.Cancel().reset();
  EXPECT_EQ(used.use_count(), 1);
}

}  // namespace
}  // namespace jobscope
