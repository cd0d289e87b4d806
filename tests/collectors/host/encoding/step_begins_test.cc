// SPDX-License-Identifier: Apache-2.0
//
// Where a step begins in the trace: with the wait for its input, wherever the program has put that.
#include "collectors/host/encoding/step_begins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collectors/host/host_collector.h"
#include "tests/collectors/host/host_collector_fixture.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

constexpr uint32_t kWait = 20;

class StepBeginsTest : public HostCollectorTest {
 protected:
  StepBeginsTest() {
    recorder_.step_count = 1;
    recorder_.step_source = kStep;
    recorder_.sites[kWait] = {
        "loader", "", "", 0, JOBSCOPE_BIT_INPUT_WAIT, JOBSCOPE_ROLE_INPUT_WAIT, {}};
  }
  void Wait(uint64_t begin, uint64_t end, uint8_t depth = 0) {
    recorder_.Scope(1, kWait, kZero + begin, kZero + end, depth);
  }
  void Scope(uint64_t begin, uint64_t end, uint8_t depth = 0) {
    recorder_.Scope(1, kPlain, kZero + begin, kZero + end, depth);
  }
  void StepBegin(uint64_t begin, uint64_t number, uint8_t depth = 0) {
    recorder_.Add(1, JOBSCOPE_KIND_STEP_BEGIN, kStep, kZero + begin, kZero + begin, depth, number,
                  JOBSCOPE_ARG_INT64);
  }
  void StepEnd(uint64_t begin, uint64_t end, uint64_t number, uint8_t depth = 0) {
    recorder_.Add(1, JOBSCOPE_KIND_STEP, kStep, kZero + begin, kZero + end, depth, number,
                  JOBSCOPE_ARG_INT64);
  }
  void Step(uint64_t begin, uint64_t end, uint64_t number) {
    StepBegin(begin, number);
    StepEnd(begin, end, number);
  }
  // {begin, end} of the whole steps, in the order of their numbers, in ns after the zero.
  std::vector<std::pair<int64_t, int64_t>> Steps() const {
    std::vector<std::pair<int64_t, int64_t>> steps;
    for (const ReadEvent& event : session_.Named("train")) {
      steps.emplace_back(event.start_ps / 1000, event.end_ps() / 1000);
    }
    return steps;
  }
  using Spans = std::vector<std::pair<int64_t, int64_t>>;
};

TEST_F(StepBeginsTest, AWaitBetweenTwoStepsBelongsToTheNextOne) {
  Begin();
  Wait(0, 60);
  Step(61, 80, 1);
  Wait(81, 140);
  Step(141, 160, 2);
  Step(170, 180, 3);
  End(1000);
  session_.ExpectIdentity();
  EXPECT_EQ(Steps(), (Spans{{0, 80}, {81, 160}, {170, 180}}));
  EXPECT_EQ(session_.report().steps, 3u);
  const std::vector<ReadEvent> steps = session_.Named("train");
  const std::vector<ReadEvent> waits = session_.Named("IteratorGetNext loader");
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_TRUE(steps[1].Contains(waits[1]));
  EXPECT_THAT(steps[1].ints, Contains(Pair("_r", 1)));
  EXPECT_THAT(steps[1].ints, Contains(Pair("step_num", 2)));
  // Where the program put its mark; in microseconds of this clock it is the zero.
  EXPECT_THAT(steps[1].ints, Contains(Pair("marked_start_ns", 141)));
  EXPECT_THAT(steps[2].ints, Not(Contains(Key("marked_start_ns"))));
}

// XProf finds no step that holds nothing but waits.
TEST_F(StepBeginsTest, AStepWithoutAScopeInItHasAMark) {
  Begin();
  Wait(0, 60);
  Step(61, 80, 1);
  StepBegin(100, 2);
  Scope(110, 120, 1);
  StepEnd(100, 130, 2);
  Step(140, 150, 3);
  End(1000);
  session_.ExpectIdentity();
  const std::vector<ReadEvent> marks = session_.Named("step_end");
  ASSERT_EQ(marks.size(), 2u);
  const std::vector<ReadEvent> steps = session_.Named("train");
  EXPECT_TRUE(steps[0].Contains(marks[0]));
  EXPECT_TRUE(steps[2].Contains(marks[1]));
  EXPECT_EQ(marks[0].duration_ps, 1);
  EXPECT_GT(marks[0].start_ps, session_.One("IteratorGetNext loader").end_ps());
}

TEST_F(StepBeginsTest, AWaitWithinAStepIsThatStepsAlone) {
  Begin();
  StepBegin(10, 1);
  Wait(11, 50, 1);
  StepEnd(10, 60, 1);
  StepBegin(70, 2);
  StepEnd(70, 90, 2);
  End(1000);
  EXPECT_EQ(Steps(), (Spans{{10, 60}, {70, 90}}));
}

TEST_F(StepBeginsTest, SeveralWaitsBelongToItAsLongAsItIsMostlyWaiting) {
  Begin();
  Wait(0, 20);
  Wait(25, 45);
  Step(50, 60, 1);
  // A wait for the end of the data, a validation without marks, and the next epoch's first batch.
  Wait(60, 61);
  Wait(900, 920);
  Step(921, 940, 2);
  // However long the work after it: the last one is of the step.
  Wait(1000, 1001);
  Step(1100, 1110, 3);
  End(2000);
  EXPECT_EQ(Steps(), (Spans{{0, 60}, {900, 940}, {1000, 1110}}));
}

TEST_F(StepBeginsTest, AScopeAroundTheWaitComesAlong) {
  Begin();
  Wait(5, 50, 2);
  Scope(3, 55, 1);
  Scope(2, 58, 0);
  Step(60, 70, 1);
  End(1000);
  EXPECT_EQ(Steps(), (Spans{{2, 70}}));
  for (const ReadEvent& scope : session_.Named("plain")) {
    EXPECT_TRUE(session_.One("train").Contains(scope));
  }
}

TEST_F(StepBeginsTest, AScopeAroundTheStepBeforeDoesNotComeAlong) {
  Begin();
  StepBegin(10, 1, 1);
  StepEnd(10, 20, 1, 1);
  Wait(30, 40, 1);
  Scope(5, 41, 0);
  Step(50, 60, 2);
  End(1000);
  EXPECT_EQ(Steps(), (Spans{{10, 20}, {30, 60}}));
}

TEST_F(StepBeginsTest, AStepWhoseWaitBeganBeforeTheWindowIsClipped) {
  Wait(0, 0);
  recorder_.threads[1].records.clear();
  recorder_.Scope(1, kWait, kZero - 50, kZero + 10);
  Step(11, 30, 1);
  Begin();
  Wait(30, 40);
  Step(41, 50, 2);
  Wait(55, 60);
  StepBegin(60, 3);
  Thread(1).open = {{kStep, 0, kZero + 60, 1, 3}};
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().steps, 1u);
  EXPECT_EQ(Steps(), (Spans{{30, 50}}));
  const std::vector<ReadEvent> clipped = session_.Named("scope/train");
  ASSERT_EQ(clipped.size(), 2u);
  EXPECT_EQ(clipped[0].start_ps, 0);
  EXPECT_THAT(clipped[0].ints, Contains(Pair("clipped_step", 1)));
  EXPECT_THAT(clipped[0].ints, Contains(Pair("true_start_ns", -50)));
  EXPECT_EQ(clipped[1].start_ps, 55'000) << "an open step has its wait, too";
  EXPECT_EQ(clipped[1].end_ps(), 100'000);
}

TEST_F(StepBeginsTest, WaitsBeforeALossAreOfAStepThatIsNotKnown) {
  Begin();
  Wait(10, 20);
  (void)collector_.Drain();
  Step(21, 30, 1);
  StepBegin(900, 2);
  StepEnd(900, 950, 2);
  Thread(1).overwritten_events = 3;
  End(1000);
  session_.ExpectIdentity();
  EXPECT_EQ(Steps(), (Spans{{900, 950}}));
}

TEST(StepBegins, IsBounded) {
  host::StepBegins steps;
  constexpr uint64_t kWaits = 2 * host::StepBegins::kMaxWaits;
  for (uint64_t i = 0; i < kWaits; ++i) steps.OnWait(10 * i, 10 * i + 9);
  for (uint64_t i = 0; i < 2 * host::StepBegins::kMaxOpenSteps; ++i) {
    steps.OnStepBegin(10 * kWaits + i);
  }
  EXPECT_EQ(steps.Of(10 * kWaits), 10 * kWaits) << "forgotten";
  host::StepBegins few;
  for (uint64_t i = 0; i < kWaits; ++i) few.OnWait(10 * i, 10 * i + 9);
  few.OnStepBegin(10 * kWaits);
  EXPECT_EQ(few.OnStepEnd(10 * kWaits, 10 * kWaits + 5),
            10 * (kWaits - host::StepBegins::kMaxWaits));
}

}  // namespace
}  // namespace jobscope
