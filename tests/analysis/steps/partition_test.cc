// SPDX-License-Identifier: Apache-2.0
#include "analysis/steps/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace jobscope::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

StepSpan Step(int64_t number, int64_t begin_ns, int64_t end_ns) {
  StepSpan step;
  step.number = number;
  step.begin_ns = begin_ns;
  step.end_ns = end_ns;
  return step;
}

const std::vector<int64_t>& Of(const Partition& partition, StepClass step_class) {
  return partition.class_ns[Index(step_class)];
}

TEST(PartitionTest, AGapBelongsToTheStepBehindIt) {
  EXPECT_THAT(AccountsOf({Step(1, 10, 20), Step(2, 25, 40), Step(3, 40, 50)}),
              ElementsAre(Interval{10, 20}, Interval{20, 40}, Interval{40, 50}));
}

TEST(PartitionTest, StepsThatAreMissingAreNoGap) {
  EXPECT_THAT(
      AccountsOf({Step(1, 0, 10), Step(2, 10, 20), Step(9, 90, 100), Step(10, 105, 110)}),
      ElementsAre(Interval{0, 10}, Interval{10, 20}, Interval{90, 100}, Interval{100, 110}));
  // A program that counts by 10 misses none.
  EXPECT_THAT(AccountsOf({Step(10, 0, 10), Step(20, 12, 20), Step(30, 21, 30)})[1],
              (Interval{10, 20}));
}

TEST(PartitionTest, EachInstantBelongsToOneClass) {
  const std::vector<StepSpan> steps = {Step(1, 0, 100)};
  RecordedTimes times;
  times.device_compute = {{40, 60}};
  times.input = {{0, 30}, {50, 55}};  // the second one is hidden behind the device
  times.device_copy = {{55, 70}};
  times.launch = {{30, 45}};
  times.host = {{0, 90}};
  const Partition partition = PartitionSteps(steps, AccountsOf(steps), times);
  EXPECT_THAT(Of(partition, StepClass::kDeviceCompute), ElementsAre(20));
  EXPECT_THAT(Of(partition, StepClass::kInput), ElementsAre(30));
  EXPECT_THAT(Of(partition, StepClass::kDeviceCopy), ElementsAre(10));
  EXPECT_THAT(Of(partition, StepClass::kLaunch), ElementsAre(10));
  EXPECT_THAT(Of(partition, StepClass::kHost), ElementsAre(20));
  EXPECT_THAT(Of(partition, StepClass::kUnexplained), ElementsAre(10));
  EXPECT_THAT(Of(partition, StepClass::kCompilation), IsEmpty());  // not recorded
  EXPECT_THAT(partition.blocked_ns, IsEmpty());
}

TEST(PartitionTest, ACollectiveBlocksWhereNothingElseRuns) {
  const std::vector<StepSpan> steps = {Step(1, 0, 100), Step(2, 100, 200)};
  RecordedTimes times;
  times.host = {{0, 200}};
  times.collectives = {{{20, 60}, false}, {{50, 120}, false}};
  // The call itself; work that began before the first call; work behind it.
  times.busy = {{{15, 25}, false}, {{30, 40}, false}};
  const Partition partition = PartitionSteps(steps, AccountsOf(steps), times);
  EXPECT_THAT(partition.blocked[0], ElementsAre(Interval{20, 30}, Interval{40, 60}));
  EXPECT_THAT(partition.blocked[1], ElementsAre(Interval{60, 100}, Interval{100, 120}));
  EXPECT_THAT(partition.blocked_ns, ElementsAre(70, 20));
  EXPECT_THAT(Of(partition, StepClass::kHost), ElementsAre(30, 80));
}

// Each of 100,000 scopes ends near each of a million calls: to compare all takes minutes.
TEST(PartitionTest, ManyScopesAndCallsThatEndTogether) {
  constexpr int64_t kScopes = 100'000;
  const std::vector<StepSpan> steps = {Step(1, 0, 2 * kScopes)};
  RecordedTimes times;
  times.collectives.assign(1'000'000, {{kScopes, kScopes + 1}, false});
  for (int64_t i = 0; i < kScopes; ++i) times.busy.push_back({{i, i + 1}, false, true});
  times.busy.push_back({{kScopes, kScopes + 1}, false, true});  // waits
  const Partition partition = PartitionSteps(steps, AccountsOf(steps), times);
  EXPECT_THAT(partition.blocked_ns, ElementsAre(1));
}

TEST(PartitionTest, AsynchronousBucketsUnderABackwardPassBlockNobody) {
  const std::vector<StepSpan> steps = {Step(1, 0, 100)};
  RecordedTimes times;
  times.collectives = {{{20, 70}, false}};
  times.busy = {{{0, 90}, true}};  // many short operators
  const Partition partition = PartitionSteps(steps, AccountsOf(steps), times);
  EXPECT_THAT(partition.blocked_ns, ElementsAre(0));
}

TEST(PartitionTest, AScopeThatEndsWithACollectiveWaitsForIt) {
  constexpr int64_t kMs = 1'000'000;
  constexpr int64_t kUs = 1000;
  const auto blocked_ns = [](const BusyBlock& block, std::optional<int64_t> cpu_ns = {}) {
    std::vector<StepSpan> steps = {Step(1, 0, 100 * kMs)};
    steps[0].cpu_ns = cpu_ns;
    RecordedTimes times;
    times.collectives = {{{20 * kMs, 50 * kMs}, false}, {{25 * kMs, 60 * kMs}, false}};
    times.busy = {block};
    return PartitionSteps(steps, AccountsOf(steps), times).blocked_ns[0];
  };
  for (const int64_t apart_ns : {-90 * kUs, 0 * kUs, 90 * kUs}) {
    const Interval span = {30 * kMs, 60 * kMs + apart_ns};
    EXPECT_EQ(blocked_ns({span, false, true}), 40 * kMs);
    // Operators, and scopes that are one block with others, work.
    EXPECT_NEAR(blocked_ns({span, false, false}), 10 * kMs, 90 * kUs);
    EXPECT_NEAR(blocked_ns({span, true, true}), 10 * kMs, 90 * kUs);
  }
  // So do scopes that end elsewhere, or that began before the call.
  EXPECT_EQ(blocked_ns({{30 * kMs, 58 * kMs}, false, true}), 12 * kMs);
  EXPECT_EQ(blocked_ns({{22 * kMs, 60 * kMs}, false, true}), 12 * kMs);
  // A thread that slept for 20 ms of the step waited for at most 20 of these 30 ms.
  EXPECT_EQ(blocked_ns({{30 * kMs, 60 * kMs}, false, true}, 80 * kMs), 30 * kMs);
  EXPECT_EQ(blocked_ns({{30 * kMs, 60 * kMs}, false, true}, 60 * kMs), 40 * kMs);
  EXPECT_EQ(blocked_ns({{30 * kMs, 60 * kMs}, false, true}, INT64_MAX), 10 * kMs);
}

// The CPU time of a step is that of its account: what it used in the gap before is no work in it.
TEST(PartitionTest, CpuTimeOfTheGapIsNotThatOfTheWait) {
  constexpr int64_t kMs = 1'000'000;
  std::vector<StepSpan> steps = {Step(1, 0, 10 * kMs), Step(2, 50 * kMs, 150 * kMs)};
  RecordedTimes times;
  times.collectives = {{{70 * kMs, 100 * kMs}, false}, {{75 * kMs, 110 * kMs}, false}};
  times.busy = {{{80 * kMs, 110 * kMs}, false, true}};
  for (const int64_t cpu_ms : {20, 90, 110}) {  // of 140
    steps[1].cpu_ns = cpu_ms * kMs;
    EXPECT_EQ(PartitionSteps(steps, AccountsOf(steps), times).blocked_ns[1], 40 * kMs) << cpu_ms;
  }
  steps[1].cpu_ns = 130 * kMs;
  EXPECT_EQ(PartitionSteps(steps, AccountsOf(steps), times).blocked_ns[1], 20 * kMs);
}

// Each collective has all of the work in it: a search through all for each would take minutes.
TEST(PartitionTest, CollectivesThatOverlapWithAllOthers) {
  constexpr int64_t kCount = 300'000;
  const std::vector<StepSpan> steps = {Step(1, 0, 4 * kCount)};
  RecordedTimes times;
  for (int64_t i = 0; i < kCount; ++i) {
    times.collectives.push_back({{i, 2 * kCount + i}, false});
    times.busy.push_back({{kCount + 2 * i, kCount + 2 * i + 1}, false});
  }
  // Before the work, and between it.
  EXPECT_THAT(PartitionSteps(steps, AccountsOf(steps), times).blocked_ns,
              ElementsAre(2 * kCount - 1));
}

TEST(PartitionTest, KernelsOfCollectivesWaitOnlyWhereNoOtherKernelRuns) {
  const std::vector<StepSpan> steps = {Step(1, 0, 100)};
  RecordedTimes times;
  times.collectives = {{{20, 70}, true}};
  times.busy = {{{25, 65}, false}};  // the host launches ahead meanwhile
  times.device_compute = {{0, 40}};
  const Partition partition = PartitionSteps(steps, AccountsOf(steps), times);
  EXPECT_THAT(partition.blocked_ns, ElementsAre(30));
}

TEST(PartitionTest, TimeWithoutACpuIsTakenFromWorkInProportion) {
  std::vector<StepSpan> steps = {Step(1, 0, 100), Step(2, 100, 200)};
  steps[0].not_running_ns = 40;
  steps[1].not_running_ns = 1000;  // more than there was work
  RecordedTimes times;
  times.host = {{0, 60}, {100, 150}};
  times.input = {{150, 200}};
  const Partition partition = PartitionSteps(steps, AccountsOf(steps), times);
  EXPECT_THAT(Of(partition, StepClass::kNotRunning), ElementsAre(40, 50));
  EXPECT_THAT(Of(partition, StepClass::kHost), ElementsAre(36, 0));
  EXPECT_THAT(Of(partition, StepClass::kUnexplained), ElementsAre(24, 0));
  EXPECT_THAT(Of(partition, StepClass::kInput), ElementsAre(0, 50));
}

TEST(PartitionTest, AThreadThatSleepsWhereNoWaitIsRecorded) {
  std::vector<StepSpan> steps = {Step(1, 0, 100), Step(2, 100, 200), Step(3, 200, 300)};
  for (StepSpan& step : steps) step.not_running_ns = 10;
  steps[0].cpu_ns = 30;   // of 100: 20 in an input wait, 10 without a CPU
  steps[1].cpu_ns = 100;  // more than there is time: clocks differ
  steps[2].cpu_ns = steps[2].not_running_ns = INT64_MAX;
  RecordedTimes times;
  times.input = {{0, 20}};
  times.host = {{20, 40}};
  const Partition partition = PartitionSteps(steps, AccountsOf(steps), times);
  EXPECT_THAT(partition.asleep_ns, ElementsAre(40, 0, 0));
}

TEST(PartitionTest, HelpersWorkWhileTheStepThreadSleeps) {
  std::vector<StepSpan> steps = {Step(1, 0, 100)};
  steps[0].cpu_ns = 30;
  steps[0].not_running_ns = 0;
  RecordedTimes times;
  times.device_compute = {{50, 60}};
  times.host = {{0, 30}};
  times.helper_host = {{20, 80}};
  times.helper_launch = {{40, 55}, {70, 75}};
  const Partition partition = PartitionSteps(steps, AccountsOf(steps), times);
  EXPECT_THAT(Of(partition, StepClass::kLaunch), ElementsAre(15));
  EXPECT_THAT(Of(partition, StepClass::kHost), ElementsAre(55));
  EXPECT_THAT(Of(partition, StepClass::kUnexplained), ElementsAre(20));
  // Of 100 it ran 30, the device 10 and helpers 50.
  EXPECT_THAT(partition.asleep_ns, ElementsAre(10));
}

TEST(PartitionTest, AScopeAroundTheWorkOfHelpersIsNoSleep) {
  std::vector<StepSpan> steps = {Step(1, 0, 100)};
  steps[0].cpu_ns = 30;
  steps[0].not_running_ns = 0;
  RecordedTimes times;
  times.host = {{0, 90}};  // also "backward", in which it waits
  times.helper_host = {{20, 90}};
  const Partition partition = PartitionSteps(steps, AccountsOf(steps), times);
  EXPECT_THAT(Of(partition, StepClass::kHost), ElementsAre(90));
  EXPECT_THAT(partition.asleep_ns, ElementsAre(0));
}

TEST(PartitionTest, WithoutCpuTimesSleepIsNotKnown) {
  std::vector<StepSpan> steps = {Step(1, 0, 100), Step(2, 100, 200)};
  EXPECT_THAT(PartitionSteps(steps, AccountsOf(steps), {}).asleep_ns, IsEmpty());
  steps[1].cpu_ns = 30;
  steps[1].not_running_ns = 0;
  EXPECT_THAT(PartitionSteps(steps, AccountsOf(steps), {}).asleep_ns, ElementsAre(70));
}

// Whatever is recorded: classes and blocked time add up to the accounts.
TEST(PartitionTest, ClassesAddUp) {
  std::mt19937 random(11);
  const auto some = [&](size_t count) {
    Intervals any;
    for (size_t i = 0; i < count; ++i) {
      const auto begin = static_cast<int64_t>(random() % 1000);
      any.push_back({begin, begin + static_cast<int64_t>(random() % 60)});
    }
    return Union(any);
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<StepSpan> steps;
    int64_t time_ns = 0;
    for (int64_t i = 0; i < 8; ++i) {
      const auto begin = time_ns + static_cast<int64_t>(random() % 20);
      time_ns = begin + static_cast<int64_t>(random() % 120);
      steps.push_back(Step(i, begin, time_ns));
      if (random() % 2 == 0) steps.back().not_running_ns = static_cast<int64_t>(random() % 90);
    }
    RecordedTimes times;
    times.device_compute = some(5);
    times.device_copy = some(4);
    times.input = some(4);
    times.compilation = some(1);
    times.garbage_collection = some(3);
    times.gil = some(2);
    times.launch = some(6);
    times.host = some(12);
    for (const Interval& call : some(6)) {
      times.collectives.push_back({call, random() % 3 == 0});
      times.collectives.push_back({{call.begin_ns + 1, call.end_ns + 30}, false});
    }
    for (const Interval& block : some(8)) {
      times.busy.push_back({block, random() % 2 == 0, random() % 2 == 0});
    }
    const std::vector<Interval> accounts = AccountsOf(steps);
    const Partition partition = PartitionSteps(steps, accounts, times);
    for (size_t s = 0; s < steps.size(); ++s) {
      int64_t sum = partition.blocked_ns.empty() ? 0 : partition.blocked_ns[s];
      for (const std::vector<int64_t>& column : partition.class_ns) {
        if (column.empty()) continue;
        EXPECT_GE(column[s], 0);
        sum += column[s];
      }
      EXPECT_EQ(sum, accounts[s].length_ns());
    }
    int64_t blocked = 0;
    for (const Intervals& intervals : partition.blocked) blocked += Length(intervals);
    EXPECT_EQ(blocked, std::accumulate(partition.blocked_ns.begin(), partition.blocked_ns.end(),
                                       int64_t{0}));
  }
}

}  // namespace
}  // namespace jobscope::analysis
