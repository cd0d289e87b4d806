// SPDX-License-Identifier: Apache-2.0
#include "client/run/write_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

#include "absl/synchronization/notification.h"
#include "tests/no_threads.h"

namespace jobscope {
namespace {

TEST(WritePool, DoesAllJobsBeforeItEnds) {
  std::atomic<int> done{0};
  {
    WritePool pool(3);
    for (int i = 0; i < 100; ++i) pool.Run([&done] { ++done; });
  }
  EXPECT_EQ(done, 100);
}

TEST(WritePoolDeathTest, WithoutThreadsItsCallerDoesTheJobs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    AllowNoThreads();
    WritePool pool(2);
    int done = 0;
    pool.Run([&done] { ++done; });
    _exit(done == 1 ? 0 : 1);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST(WritePoolDeathTest, OneThreadDoesTheJobsOfAllThatCannotBeStarted) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    WritePool pool(2);
    absl::Notification started;
    absl::Notification go_on;
    absl::Notification done;
    pool.Run([&] {
      started.Notify();
      go_on.WaitForNotification();
    });
    started.WaitForNotification();
    AllowNoThreads();
    pool.Run([&done] { done.Notify(); });
    go_on.Notify();
    done.WaitForNotification();
    _exit(0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace jobscope
