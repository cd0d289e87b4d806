// SPDX-License-Identifier: Apache-2.0
#include "client/rpc/call_threads.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "tests/no_threads.h"

namespace jobscope {
namespace {

bool NamesARemedy(const absl::Status& status) {
  return absl::IsResourceExhausted(status) && absl::StrContains(status.message(), "ulimit -u");
}

TEST(CallThreads, AreThereBeforeTheFirstCall) {
  EXPECT_TRUE(EnsureThreads().ok());
  const CallThreads threads;
  EXPECT_TRUE(threads.started().ok());
}

TEST(CallThreadsDeathTest, ThatAreRefusedAreReportedBeforehand) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    AllowNoThreads();
    _exit(NamesARemedy(EnsureThreads()) ? 0 : 1);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST(CallThreadsDeathTest, ThatAreRefusedAreNoCrash) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    AllowNoThreads();
    const CallThreads threads;
    _exit(NamesARemedy(threads.started()) ? 0 : 1);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace jobscope
