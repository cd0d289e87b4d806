// SPDX-License-Identifier: Apache-2.0
//
// Python that shuts down during a session of a framework's profiler.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "collectors/framework/profiler_collector.h"
#include "tests/collectors/framework/profiler_fixture.h"
#include "tests/collectors/host/session_driver.h"

namespace jobscope {
namespace {

// Ends the interpreter, as far as we can tell: in processes of their own.
class LeavingTest : public ProfilerTest {
 protected:
  LeavingTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // Python's exit hooks run while nobody knows that the session will end.
  void LeaveAndThenStop() {
    ASSERT_TRUE(driver_.Arm().ok());
    ASSERT_TRUE(driver_.Start().ok());
    SetTrace(Recording(3, /*marked=*/true));
    driver_.set_planned_end(driver_.Now() + uint64_t{3600} * 1'000'000'000);
    std::atomic<bool> left{false};
    std::thread program([&] {
      Call("leave");
      left = true;
    });
    while (!left) (void)driver_.Drain();
    program.join();
    // The hooks have waited for it, within their time limit.
    EXPECT_GT(driver_.store().events(), 0u);
    const CollectorReport& report = driver_.StopAt(driver_.Now() + 1'000'000'000);
    EXPECT_EQ(report.state, CollectorState::kOn) << report.reason;
    EXPECT_EQ(report.events, 3u);
    EXPECT_EQ(report.steps, 3u);
    driver_.ExpectIdentity();
    EXPECT_TRUE(driver_.Arm().ok());
    EXPECT_EQ(collector_->Describe().state, CollectorState::kOff);
    Leave();
  }

  // They run while the collector is in the framework's profiler.
  void LeaveInTheMiddleOfAStop() {
    ASSERT_TRUE(driver_.Arm().ok());
    ASSERT_TRUE(driver_.Start().ok());
    SetTrace(Recording(3, /*marked=*/true));
    Call("close_gate");
    std::thread collector([&] { (void)driver_.StopAt(driver_.Now() + 1'000'000'000); });
    Call("await_stopping");
    std::thread program([&] {
      Call("leave");
      EXPECT_GT(driver_.store().events(), 0u);  // so the collector has been back from Python
    });
    Call("open_gate");
    collector.join();
    program.join();
    EXPECT_EQ(driver_.report().state, CollectorState::kOn) << driver_.report().reason;
    EXPECT_EQ(driver_.report().events, 3u);
    Leave();
  }

  void InferNothingWhereThatIsSwitchedOff() {
    setenv("JOBSCOPE_INFER_STEPS", "0", 1);
    ASSERT_TRUE(driver_.Arm().ok());
    ASSERT_TRUE(driver_.Start().ok());
    SetTrace(Recording(5));
    const CollectorReport& report = driver_.StopAt(driver_.Now() + 1'000'000'000);
    EXPECT_EQ(report.events, 5u);
    EXPECT_FALSE(report.steps.has_value());
    Leave();
  }

  void Leave() {
    g_process->TearDown();
    std::exit(HasFailure() ? 1 : 0);
  }
};

TEST_P(LeavingTest, WhatIsRecordedIsInTheTraceBeforeThePythonIsGone) {
  EXPECT_EXIT(LeaveAndThenStop(), ::testing::ExitedWithCode(0), "");
}

TEST_P(LeavingTest, NoThreadOfOursIsLeftInPython) {
  EXPECT_EXIT(LeaveInTheMiddleOfAStop(), ::testing::ExitedWithCode(0), "");
}

TEST_P(LeavingTest, StepsAreNotInferredWhereThatIsSwitchedOff) {
  EXPECT_EXIT(InferNothingWhereThatIsSwitchedOff(), ::testing::ExitedWithCode(0), "");
}

INSTANTIATE_TEST_SUITE_P(All, LeavingTest, ::testing::ValuesIn(kFrameworks), FrameworkName);

}  // namespace
}  // namespace jobscope
