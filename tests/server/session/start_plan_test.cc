// SPDX-License-Identifier: Apache-2.0
#include "server/session/start_plan.h"

#include <gtest/gtest.h>

#include "server/limits.h"

namespace jobscope {
namespace {

// 1 tick is 1 ns; tick 1,000 s is MONOTONIC 500 s, REALTIME 10,000 s.
constexpr uint64_t kSecond = 1'000'000'000;

TickMap Map() {
  ClockSample early;
  ClockSample late;
  early.ticks = 999 * kSecond;
  early.monotonic_ns = 499 * kSecond;
  late.ticks = 1000 * kSecond;
  late.monotonic_ns = 500 * kSecond;
  late.realtime_ns = 10'000 * kSecond;
  return TickMap::FromSamples(early, late);
}

StartCommand Command(uint64_t start_s, uint64_t zero_s, absl::Duration duration) {
  StartCommand command;
  command.start_monotonic_ns = start_s * kSecond;
  command.zero_monotonic_ns = zero_s * kSecond;
  command.duration = duration;
  return command;
}

TEST(StartPlanTest, NowIfNothingIsAsked) {
  SessionOptions options;
  options.duration = absl::Seconds(2);
  const StartPlan plan = PlanStart(options, Map(), 1001 * kSecond);
  EXPECT_EQ(plan.start_ticks, 1001 * kSecond);
  EXPECT_EQ(plan.zero_ticks, 1001 * kSecond);
  EXPECT_EQ(plan.begin_ticks, 1001 * kSecond);
  EXPECT_EQ(plan.deadline_ticks, 1003 * kSecond);
  EXPECT_EQ(plan.late_ns, 0u);
  EXPECT_FALSE(plan.keep_zero);
}

TEST(StartPlanTest, AnInstantOnRealtime) {
  SessionOptions options;
  options.duration = absl::InfiniteDuration();
  options.start_unix_ns = 10'003 * static_cast<int64_t>(kSecond);
  StartPlan plan = PlanStart(options, Map(), 1001 * kSecond);
  EXPECT_EQ(plan.start_ticks, 1003 * kSecond);
  EXPECT_EQ(plan.zero_ticks, 1003 * kSecond);
  EXPECT_EQ(plan.deadline_ticks, UINT64_MAX);

  plan = PlanStart(options, Map(), 1007 * kSecond);
  EXPECT_EQ(plan.start_ticks, 1007 * kSecond);
  EXPECT_EQ(plan.zero_ticks, 1003 * kSecond) << "the same for all workers";
  EXPECT_EQ(plan.late_ns, 4 * kSecond);

  ASSERT_LT(limits::kMaxStartAge, absl::Seconds(97));
  plan = PlanStart(options, Map(), 1100 * kSecond);
  EXPECT_EQ(plan.zero_ticks, 1100 * kSecond) << "a clock of no use";
  EXPECT_EQ(plan.late_ns, 97 * kSecond);
}

TEST(StartPlanTest, ACommandOnMonotonic) {
  StartPlan plan = PlanStart(Command(510, 505, absl::Seconds(3)), Map(), 1001 * kSecond);
  EXPECT_EQ(plan.start_ticks, 1010 * kSecond);
  EXPECT_EQ(plan.zero_ticks, 1005 * kSecond);
  EXPECT_EQ(plan.deadline_ticks, 1013 * kSecond);
  EXPECT_EQ(plan.late_ns, 0u);
  EXPECT_TRUE(plan.keep_zero);

  plan = PlanStart(Command(510, 505, absl::Seconds(3)), Map(), 1012 * kSecond);
  EXPECT_EQ(plan.start_ticks, 1012 * kSecond);
  EXPECT_EQ(plan.zero_ticks, 1005 * kSecond);
  EXPECT_EQ(plan.deadline_ticks, 1015 * kSecond) << "of its whole length, late as it is";
  EXPECT_EQ(plan.late_ns, 2 * kSecond);

  plan = PlanStart(Command(510, 520, absl::Seconds(3)), Map(), 1001 * kSecond);
  EXPECT_EQ(plan.zero_ticks, 1010 * kSecond) << "no time in a trace is negative";
  plan = PlanStart(Command(510, 510, absl::Hours(24 * 365 * 1000)), Map(), 0);
  EXPECT_EQ(plan.deadline_ticks, UINT64_MAX);
}

TEST(StartPlanTest, ALookbackMovesTheZeroUnlessThatIsShared) {
  SessionOptions options;
  StartPlan plan = PlanStart(options, Map(), 1001 * kSecond);
  AddLookback(absl::Seconds(10), 0, Map(), &plan);
  EXPECT_EQ(plan.begin_ticks, 991 * kSecond);
  EXPECT_EQ(plan.zero_ticks, 991 * kSecond);
  EXPECT_EQ(plan.lookback_ticks(), 10 * kSecond);

  plan = PlanStart(options, Map(), 1001 * kSecond);
  AddLookback(absl::Seconds(10), 998 * kSecond, Map(), &plan);
  EXPECT_EQ(plan.begin_ticks, 998 * kSecond) << "what the rings hold";
  plan = PlanStart(options, Map(), 1001 * kSecond);
  AddLookback(absl::Seconds(10), UINT64_MAX, Map(), &plan);
  EXPECT_EQ(plan.begin_ticks, 1001 * kSecond) << "no past";
  EXPECT_EQ(plan.lookback_ticks(), 0u);
  AddLookback(absl::ZeroDuration(), 0, Map(), &plan);
  EXPECT_EQ(plan.lookback_ticks(), 0u);
  AddLookback(absl::InfiniteDuration(), 0, Map(), &plan);
  EXPECT_EQ(plan.begin_ticks, 0u);

  plan = PlanStart(Command(510, 505, absl::Seconds(1)), Map(), 1001 * kSecond);
  AddLookback(absl::Seconds(10), 0, Map(), &plan);
  EXPECT_EQ(plan.begin_ticks, 1005 * kSecond);
  EXPECT_EQ(plan.zero_ticks, 1005 * kSecond);
  EXPECT_EQ(plan.lookback_ticks(), 5 * kSecond);
  plan = PlanStart(Command(510, 505, absl::Seconds(1)), Map(), 1001 * kSecond);
  AddLookback(absl::Seconds(10), 1008 * kSecond, Map(), &plan);
  EXPECT_EQ(plan.begin_ticks, 1008 * kSecond);
  EXPECT_EQ(plan.zero_ticks, 1005 * kSecond);
  EXPECT_EQ(plan.lookback_ticks(), 2 * kSecond);
}

TEST(StartPlanTest, ALateStartLeavesNoGapAfterItsLookback) {
  StartPlan plan = PlanStart(Command(510, 505, absl::Seconds(1)), Map(), 1012 * kSecond);
  AddLookback(absl::Seconds(4), 0, Map(), &plan);
  EXPECT_EQ(plan.begin_ticks, 1006 * kSecond) << "counted from the commanded instant";
  EXPECT_EQ(plan.start_ticks, 1012 * kSecond);
  EXPECT_EQ(plan.lookback_ticks(), 4 * kSecond);
}

// Rings that record continuously may hold an hour, and a client may name a start that long ago.
TEST(StartPlanTest, AStartLongPastReachesBackNoFurtherThanAllowed) {
  StartCommand command = Command(510, 405, absl::Seconds(1));
  command.max_lookback = absl::Seconds(10);
  StartPlan plan = PlanStart(command, Map(), 1200 * kSecond);
  AddLookback(absl::Seconds(4), 0, Map(), &plan);
  EXPECT_EQ(plan.begin_ticks, 1200 * kSecond) << "all of the lookback is out of reach";
  EXPECT_EQ(plan.start_ticks, 1200 * kSecond);

  plan = PlanStart(command, Map(), 1017 * kSecond);
  AddLookback(absl::Seconds(4), 0, Map(), &plan);
  EXPECT_EQ(plan.begin_ticks, 1007 * kSecond) << "a part of it is";

  plan = PlanStart(command, Map(), 1012 * kSecond);
  AddLookback(absl::Seconds(4), 0, Map(), &plan);
  EXPECT_EQ(plan.begin_ticks, 1006 * kSecond) << "a start that is a little late keeps its lookback";
}

TEST(StartPlanTest, AStepWindowOpens) {
  SessionOptions options;
  options.steps = StepRange{1, 2};
  options.duration = absl::Seconds(4);
  StartPlan plan = PlanStart(options, Map(), 1001 * kSecond);
  EXPECT_EQ(plan.deadline_ticks, UINT64_MAX) << "counts from the opening";
  OpenStepWindow(1020 * kSecond, Map(), &plan);
  EXPECT_EQ(plan.zero_ticks, 1020 * kSecond);
  EXPECT_EQ(plan.begin_ticks, 1020 * kSecond);
  EXPECT_EQ(plan.deadline_ticks, 1024 * kSecond);

  StartCommand command = Command(510, 505, absl::Seconds(30));
  command.steps = StepRange{1, 2};
  plan = PlanStart(command, Map(), 1001 * kSecond);
  OpenStepWindow(1020 * kSecond, Map(), &plan);
  EXPECT_EQ(plan.zero_ticks, 1005 * kSecond);
  EXPECT_EQ(plan.begin_ticks, 1020 * kSecond);
  EXPECT_EQ(plan.deadline_ticks, 1040 * kSecond) << "of waiting and recording together";
  OpenStepWindow(1002 * kSecond, Map(), &plan);
  EXPECT_EQ(plan.begin_ticks, 1005 * kSecond) << "clipped at the zero";
}

}  // namespace
}  // namespace jobscope
