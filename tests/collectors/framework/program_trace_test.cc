// SPDX-License-Identifier: Apache-2.0
//
// Sessions of a framework's profiler that the program itself begins, beside ours.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <variant>

#include "collectors/framework/profiler_collector.h"
#include "tests/collectors/framework/profiler_fixture.h"
#include "tests/collectors/host/session_driver.h"

namespace jobscope {
namespace {

class ProgramTraceTest : public ProfilerTest {};

TEST_P(ProgramTraceTest, SomebodyElsesSessionIsAReason) {
  ASSERT_TRUE(driver_.Arm().ok());
  SetTrace("", "ALREADY_EXISTS: Another profiling session active.");
  const absl::Status started = driver_.Start();
  if (IsJax()) {  // which says so only in the end
    ASSERT_TRUE(started.ok());
    EXPECT_TRUE(collector_->Stop(driver_.Now()).ok());
  } else {
    EXPECT_FALSE(started.ok());
  }
  const CollectorReport report = collector_->Report();
  EXPECT_EQ(report.state, CollectorState::kFailed);
  EXPECT_NE(report.reason.find("is being profiled already"), std::string::npos) << report.reason;
  EXPECT_EQ(collector_->Describe().state, CollectorState::kFailed);
  SetTrace("");
}

// The program comes first: ours ends where it begins, and what ours has until then is in the trace.
TEST_P(ProgramTraceTest, TheProgramsOwnTraceEndsOurs) {
  const auto program_traces = [this] {
    return std::get<std::string>(Call("program_traces", {std::string(GetParam().name)}));
  };
  ASSERT_TRUE(driver_.Arm().ok());
  EXPECT_EQ(Int("untouched"), 1);
  ASSERT_TRUE(driver_.Start().ok());
  EXPECT_EQ(Int("untouched"), 0);
  SetTrace(Recording(3, /*marked=*/true));
  EXPECT_EQ(program_traces(), "");
  EXPECT_EQ(Int("running"), 0);
  EXPECT_EQ(Int("untouched"), 1);
  EXPECT_EQ(program_traces(), "");  // and again, while our session still lasts
  (void)driver_.Drain();
  const CollectorReport& report = driver_.StopAt(driver_.Now() + 1'000'000'000);
  EXPECT_EQ(report.state, CollectorState::kDegraded);
  EXPECT_NE(report.reason.find("the program began its own trace"), std::string::npos)
      << report.reason;
  EXPECT_EQ(report.events, 3u);
  driver_.ExpectIdentity();

  // The next capture has all of it again.
  SessionDriver again(collector_.get(), uses_tsc_);
  ASSERT_TRUE(again.Arm().ok());
  ASSERT_TRUE(again.Start().ok());
  SetTrace(Recording(4, /*marked=*/true));
  const CollectorReport& next = again.StopAt(again.Now() + 1'000'000'000);
  EXPECT_EQ(next.state, CollectorState::kOn) << next.reason;
  EXPECT_EQ(next.events, 4u);
  EXPECT_EQ(Int("untouched"), 1);
}

// While ours hands over, the program's start waits for it.
TEST_P(ProgramTraceTest, TheProgramsOwnTraceWaitsForAHandover) {
  ASSERT_TRUE(driver_.Arm().ok());
  ASSERT_TRUE(driver_.Start().ok());
  SetTrace(Recording(3, /*marked=*/true));
  Call("close_gate");
  std::thread collector([&] { (void)driver_.StopAt(driver_.Now() + 1'000'000'000); });
  Call("await_stopping");
  std::string said;
  std::thread program([&] {
    said = std::get<std::string>(Call("program_traces", {std::string(GetParam().name)}));
  });
  Call("open_gate");
  collector.join();
  program.join();
  EXPECT_EQ(said, "");
  EXPECT_EQ(driver_.report().state, CollectorState::kOn) << driver_.report().reason;
  EXPECT_EQ(driver_.report().events, 3u);
}

// Nor does it wait for one that hangs (20 s here): the framework itself then answers the program.
TEST_P(ProgramTraceTest, AHangingHandoverDelaysTheProgramsOwnTraceByAFewSeconds) {
  ASSERT_TRUE(driver_.Arm().ok());
  ASSERT_TRUE(driver_.Start().ok());
  SetTrace(Recording(3, /*marked=*/true));
  Call("close_gate");
  std::thread collector([&] { (void)driver_.StopAt(driver_.Now() + 1'000'000'000); });
  Call("await_stopping");
  const auto said = std::get<std::string>(Call("program_traces", {std::string(GetParam().name)}));
  Call("open_gate");
  collector.join();
  EXPECT_NE(said.find("nother profiling session active"), std::string::npos) << said;
  EXPECT_EQ(driver_.report().state, CollectorState::kDegraded);
  EXPECT_NE(driver_.report().reason.find("did not end this recording within 5 s"),
            std::string::npos)
      << driver_.report().reason;
  EXPECT_EQ(driver_.report().events, 3u);
}

// The same where it hangs in the end that the program's own start asks for.
TEST_P(ProgramTraceTest, AHangingEndDelaysTheProgramsOwnTraceByAFewSeconds) {
  ASSERT_TRUE(driver_.Arm().ok());
  ASSERT_TRUE(driver_.Start().ok());
  SetTrace(Recording(3, /*marked=*/true));
  Call("close_gate");
  const auto said = std::get<std::string>(Call("program_traces", {std::string(GetParam().name)}));
  Call("open_gate");
  EXPECT_NE(said.find("nother profiling session active"), std::string::npos) << said;
  const CollectorReport& report = driver_.StopAt(driver_.Now() + 1'000'000'000);
  EXPECT_EQ(report.state, CollectorState::kDegraded);
  EXPECT_NE(report.reason.find("did not end this recording within 5 s"), std::string::npos)
      << report.reason;
  EXPECT_EQ(report.events, 3u);
}

INSTANTIATE_TEST_SUITE_P(All, ProgramTraceTest, ::testing::ValuesIn(kFrameworks), FrameworkName);

}  // namespace
}  // namespace jobscope
