// SPDX-License-Identifier: Apache-2.0
#include "common/threads/detached_caller.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/time/clock.h"
#include "tests/common/threads/starved.h"
#include "tests/common/threads/starved_start.h"

namespace jobscope {
namespace {

TEST(DetachedCallerTest, GivesUpOnACallThatHangs) {
  std::mutex mutex;
  std::condition_variable changed;
  bool go_on = false;
  DetachedCaller calls("test");
  EXPECT_TRUE(calls.Run("quick", absl::Seconds(10), [] {}));
  EXPECT_FALSE(calls.Run("slow", absl::Milliseconds(5), [&] {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return go_on; });
  }));
  EXPECT_TRUE(calls.busy());
  EXPECT_EQ(calls.running(), "slow");
  EXPECT_FALSE(calls.Post("another", [] {}));
  {
    const std::lock_guard<std::mutex> lock(mutex);
    go_on = true;
    changed.notify_all();
  }
  EXPECT_TRUE(calls.Wait(absl::Seconds(10)));
  EXPECT_TRUE(calls.Run("again", absl::Seconds(10), [] {}));
}

TEST(DetachedCallerTest, ACallThatGetsNoProcessorHasNotHung) {
  const cpu_set_t processor = OneProcessor();
  BusyProcessor busy(processor);
  DetachedCaller calls("test");
  ASSERT_TRUE(calls.Post("starved", [&] { ComputeStarved(processor); }));
  std::thread later([&] {
    absl::SleepFor(absl::Milliseconds(400));
    busy.Free();
  });
  EXPECT_TRUE(calls.Wait(absl::Milliseconds(100)));
  later.join();
}

// It has not run a single instruction of ours.
TEST(DetachedCallerTest, AThreadThatHasNeverRunHasNotHung) {
  const cpu_set_t processor = OneProcessor();
  BusyProcessor busy(processor);
  starved_start = processor;
  DetachedCaller calls("test");
  starved_start.reset();
  std::thread later([&] {
    absl::SleepFor(absl::Milliseconds(400));
    busy.Free();
  });
  EXPECT_TRUE(calls.Run("starved", absl::Milliseconds(100), [] {}));
  later.join();
}

}  // namespace
}  // namespace jobscope
