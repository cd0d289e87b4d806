// SPDX-License-Identifier: Apache-2.0
//
// Tests windows of the host collector with the real recorder: events across their edges, lookback,
// windows of steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "jobscope/trace_c.h"
#include "tests/collectors/host/host_recorder_fixture.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST_F(HostRecorderTest, WhatCrossesTheWindowIsClipped) {
  collector_.SetAlwaysOn(true);
  SessionDriver session(&collector_, uses_tsc());
  { JOBSCOPE_SCOPE_COARSE("long_before"); }
  ASSERT_TRUE(session.Arm().ok());
  uint64_t start = 0;
  uint64_t end = 0;
  { JOBSCOPE_SCOPE_COARSE("before"); }
  Step(1, [&] {
    start = session.Now();
    ASSERT_TRUE(session.StartAt(start).ok());
  });
  Step(2, [] {});
  Step(3, [&] { end = session.Now(); });
  { JOBSCOPE_SCOPE_COARSE("after"); }
  session.StopAt(end);
  collector_.SetAlwaysOn(false);
  session.ExpectIdentity();
  EXPECT_EQ(session.report().steps, 1u);
  EXPECT_EQ(session.report().outside, 2u)
      << "before and after; what was before Arm is not of the session";
  EXPECT_THAT(session.One("train").ints, Contains(Pair("step_num", 2)));
  const std::vector<ReadEvent> clipped = session.Named("scope/train");
  ASSERT_EQ(clipped.size(), 2u);
  EXPECT_THAT(clipped[0].ints, Contains(Pair("clipped_step", 1)));
  EXPECT_GE(clipped[0].start_ps, 0);
  EXPECT_LT(clipped[0].ints.at("true_start_ns"), 0);
  EXPECT_THAT(clipped[1].ints, Contains(Pair("clipped_step", 3)));
  EXPECT_EQ(clipped[1].end_ps(), session.map().ToPs(end));
  EXPECT_GE(clipped[1].ints.at("true_end_ns"), session.map().ToPs(end) / 1000);
  EXPECT_EQ(clipped[1].display_name, "train");
}

TEST_F(HostRecorderTest, AStepThatBeganBeforeItsScopesWereRecordedIsNotWhole) {
  collector_.SetAlwaysOn(true);
  SessionDriver session(&collector_, uses_tsc());
  ASSERT_TRUE(session.Arm().ok());
  const uint64_t start = session.Now();  // commanded now; carried out a little later
  Step(1, [&] {
    { JOBSCOPE_SCOPE("not_recorded"); }
    ASSERT_TRUE(session.StartAt(start).ok());
    { JOBSCOPE_SCOPE("recorded"); }
  });
  Step(2, [] {});
  session.Stop();
  collector_.SetAlwaysOn(false);
  session.ExpectIdentity();
  EXPECT_EQ(session.report().steps, 1u);
  EXPECT_THAT(session.One("train").ints, Contains(Pair("step_num", 2)));
  const ReadEvent partial = session.One("scope/train");
  EXPECT_THAT(partial.ints, Contains(Pair("clipped_step", 1)));
  EXPECT_THAT(partial.ints, Contains(Pair("truncated", 1)));
  EXPECT_GT(partial.start_ps, 0) << "the window begins when it is really recorded";
  EXPECT_TRUE(partial.Contains(session.One("recorded")));
}

TEST_F(HostRecorderTest, LookbackReachesIntoTheRings) {
  collector_.SetAlwaysOn(true);
  SessionDriver session(&collector_, uses_tsc());
  session.request().lookback = absl::Seconds(10);
  { JOBSCOPE_SCOPE_COARSE("too_early"); }
  const uint64_t from = session.Now();
  std::thread([] { JOBSCOPE_SCOPE_COARSE("in_a_thread_that_ended"); }).join();
  for (int i = 0; i < 20; ++i) {
    JOBSCOPE_SCOPE_COARSE("coarse");
  }
  ASSERT_TRUE(session.Arm().ok());
  EXPECT_LE(collector_.OldestTicks(), from);
  ASSERT_TRUE(session.StartAt(from).ok());
  session.Stop();
  collector_.SetAlwaysOn(false);
  session.ExpectIdentity();
  EXPECT_EQ(session.Named("coarse").size(), 20u);
  EXPECT_EQ(session.Named("in_a_thread_that_ended").size(), 1u);
  EXPECT_TRUE(session.Named("too_early").empty());
  EXPECT_GE(session.report().outside, 1u);
}

// Nobody reads them: the next thread takes the ring of one that has ended.
TEST_F(HostRecorderTest, ASessionOfLevelZeroHoldsNoRingsOfEndedThreads) {
  const auto record = [] {
    uint64_t serial = 0;
    std::thread([&serial] {
      { JOBSCOPE_SCOPE_COARSE("coarse"); }
      serial = jobscope_trace_next_id() >> 32;
    }).join();
    return serial;
  };
  const auto holds_rings = [&record] {
    const uint64_t first = record();
    record();
    jobscope_thread_info info{};
    return reader()->threads(first, &info, 1) == 1 && info.serial == first;
  };
  collector_.SetAlwaysOn(true);
  for (const absl::Duration lookback : {absl::ZeroDuration(), absl::Seconds(1)}) {
    SessionDriver session(&collector_, uses_tsc());
    session.request().recording.host_tracer_level = 0;
    session.request().lookback = lookback;
    ASSERT_TRUE(session.Arm().ok());
    EXPECT_FALSE(holds_rings());
    ASSERT_TRUE(session.Start().ok());
    session.Drain();
    EXPECT_FALSE(holds_rings());
    session.Stop();
  }
  SessionDriver recording(&collector_, uses_tsc());
  ASSERT_TRUE(recording.Arm().ok());
  ASSERT_TRUE(recording.Start().ok());
  EXPECT_TRUE(holds_rings());
  recording.Stop();
  collector_.SetAlwaysOn(false);
}

TEST_F(HostRecorderTest, WithoutRecordingThereIsNoPast) {
  SessionDriver session(&collector_, uses_tsc());
  session.request().lookback = absl::Seconds(1);
  ASSERT_TRUE(session.Arm().ok());
  EXPECT_EQ(collector_.OldestTicks(), UINT64_MAX);
  session.Stop();
}

// Asked when a framework hands over: a loop of short steps has begun hundreds since the window.
TEST_F(HostRecorderTest, StepsOfAWindowThatAreForgottenAreSteps) {
  collector_.SetAlwaysOn(true);
  const uint64_t before = Now();
  for (int step = 0; step < 10; ++step) Step(step, [] {});
  const uint64_t between = Now();
  EXPECT_TRUE(host::HasStepsBetween(*reader(), before, between));
  EXPECT_FALSE(host::HasStepsBetween(*reader(), between, Now()));
  for (int step = 0; step < 400; ++step) Step(step, [] {});
  EXPECT_TRUE(host::HasStepsBetween(*reader(), before, between));
  const uint64_t after = Now();
  EXPECT_TRUE(host::HasStepsBetween(*reader(), between, after));
  EXPECT_FALSE(host::HasStepsBetween(*reader(), after, Now()));
  collector_.SetAlwaysOn(false);
}

TEST_F(HostRecorderTest, StepWindowTakesWholeStepsOnly) {
  SessionDriver session(&collector_, uses_tsc());
  session.set_steps(StepRange{102, 104});
  EXPECT_TRUE(collector_.WatchesSteps());
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  for (int step = 100; step < 108; ++step) {
    Step(step, [&] { JOBSCOPE_SCOPE("work", "step", step); });
    session.Drain();
  }
  session.Drain();
  ASSERT_TRUE(session.events.opened.has_value());
  ASSERT_TRUE(session.events.closed.has_value());
  session.StopAt(*session.events.closed);
  session.ExpectIdentity();
  EXPECT_EQ(session.report().steps, 3u);
  ASSERT_EQ(session.Named("train").size(), 3u);
  EXPECT_THAT(session.Named("train")[0].ints, Contains(Pair("step_num", 102)));
  EXPECT_EQ(session.Named("train")[0].start_ps, 0) << "the opening is the zero";
  ASSERT_EQ(session.Named("work").size(), 3u);
  EXPECT_THAT(session.Named("work")[2].ints, Contains(Pair("step", 104)));
  EXPECT_TRUE(session.report().lost_by_cause.empty());
}

// A busy machine watches when the first step is over: as many later ones, and that is said.
TEST_F(HostRecorderTest, AStepWindowThatOpensLateTakesAsManySteps) {
  collector_.SetAlwaysOn(true);
  Step(300, [] {});
  SessionDriver session(&collector_, uses_tsc());
  session.set_steps(StepRange{298, 300});
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  for (int step = 301; step < 306; ++step) {
    Step(step, [] {});
    session.Drain();
  }
  ASSERT_TRUE(session.events.closed.has_value());
  session.StopAt(*session.events.closed);
  collector_.SetAlwaysOn(false);
  EXPECT_EQ(session.report().steps, 3u);
  EXPECT_EQ(session.report().first_step, 301);
  EXPECT_EQ(session.report().last_step, 303);
  EXPECT_THAT(session.report().warnings, Contains(HasSubstr("recorded from step 301 on")));
}

TEST_F(HostRecorderTest, AStepWindowThatNeverOpensLeavesNothing) {
  SessionDriver session(&collector_, uses_tsc());
  session.set_steps(StepRange{1'000'000, 1'000'001});
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  for (int step = 0; step < 3; ++step) {
    Step(step, [] { JOBSCOPE_SCOPE("work"); });
    session.Drain();
  }
  EXPECT_FALSE(session.events.opened.has_value());
  session.Stop();
  session.ExpectIdentity();
  EXPECT_EQ(session.report().attempted, 0u);
  EXPECT_EQ(reader()->mask(), 0u);
}

}  // namespace
}  // namespace jobscope
