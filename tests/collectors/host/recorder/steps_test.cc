// SPDX-License-Identifier: Apache-2.0
//
// The source of steps, the newest steps, and the trigger.
//
// The source is the first step site of the process that records, so all tests here share one site.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "jobscope/trace.h"
#include "tests/collectors/host/recorder/recorded.h"

namespace jobscope::recorder_test {
namespace {

const struct jobscope_trace_reader* Reader() { return jobscope_trace_reader(); }

template <typename Body>
void TrainStep(int64_t number, Body body) {
  JOBSCOPE_STEP("train", number);
  body();
}
void TrainStep(int64_t number) {
  TrainStep(number, [] {});
}
void EvalStep(int64_t number) { JOBSCOPE_STEP("eval", number); }

// Makes the training step the source, whatever test runs first. (TrainStep is a template; all its
// functions share a site.)
class TrainStepIsTheSource : public testing::Environment {
 public:
  void SetUp() override {
    const Recording recording(JOBSCOPE_BIT_STEP);
    TrainStep(-1);
  }
};
const testing::Environment* const g_source =
    testing::AddGlobalTestEnvironment(new TrainStepIsTheSource);

class Steps : public testing::Test {
 protected:
  Steps() { Reader()->disarm_trigger(); }
  ~Steps() override { Reader()->disarm_trigger(); }
  Recording recording_{JOBSCOPE_BIT_STEP};
};

jobscope_trigger_info Trigger() {
  jobscope_trigger_info info;
  Reader()->trigger(&info);
  return info;
}

std::vector<jobscope_step_info> Recent(size_t capacity = 256) {
  std::vector<jobscope_step_info> steps(capacity);
  steps.resize(Reader()->recent_steps(steps.data(), steps.size()));
  return steps;
}

TEST_F(Steps, RecentStepsAreThoseOfTheSource) {
  const uint64_t before = Reader()->step_count();
  TrainStep(10);
  EvalStep(77);
  TrainStep(11);
  EXPECT_EQ(Reader()->step_count(), before + 2);
  const auto steps = Recent(2);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].number, 10);
  EXPECT_EQ(steps[1].number, 11);
  EXPECT_LT(steps[0].begin_ticks, steps[0].end_ticks);
  EXPECT_LE(steps[0].end_ticks, steps[1].begin_ticks);
}

TEST_F(Steps, TheRunningStepHasNoEnd) {
  TrainStep(20, [] {
    const auto steps = Recent(1);
    ASSERT_EQ(steps.size(), 1u);
    EXPECT_EQ(steps[0].number, 20);
    EXPECT_EQ(steps[0].end_ticks, 0u);
  });
  EXPECT_NE(Recent(1)[0].end_ticks, 0u);
}

TEST_F(Steps, OnlyTheNewest256AreKept) {
  const uint64_t before = Reader()->step_count();
  for (int i = 0; i < 1000; ++i) TrainStep(i);
  EXPECT_EQ(Reader()->step_count(), before + 1000);
  const auto steps = Recent(1000);
  ASSERT_EQ(steps.size(), 256u);
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].number, static_cast<int64_t>(1000 - 256 + i));
    EXPECT_NE(steps[i].end_ticks, 0u);
  }
}

TEST_F(Steps, StepsOfSeveralThreadsAtOnce) {
  const uint64_t before = Reader()->step_count();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 500; ++i) TrainStep(t * 1000 + i);
    });
  }
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop.load()) {
      for (const jobscope_step_info& step : Recent()) {
        if (step.end_ticks != 0) {
          ASSERT_LT(step.begin_ticks, step.end_ticks);
        }
      }
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop.store(true);
  reader.join();
  EXPECT_EQ(Reader()->step_count(), before + 4000);
}

TEST_F(Steps, TheTriggerOpensAndClosesAtItsSteps) {
  EXPECT_EQ(Trigger().state, JOBSCOPE_TRIGGER_IDLE);
  Reader()->arm_trigger(100, 102, JOBSCOPE_BIT_LEVEL1);
  TrainStep(99);
  EvalStep(100);
  EXPECT_EQ(Trigger().state, JOBSCOPE_TRIGGER_ARMED);
  EXPECT_EQ(Reader()->mask(), JOBSCOPE_BIT_STEP);
  for (int64_t number = 100; number <= 102; ++number) {
    TrainStep(number, [] { EXPECT_EQ(Reader()->mask(), JOBSCOPE_BIT_STEP | JOBSCOPE_BIT_LEVEL1); });
    if (number < 102) {
      EXPECT_EQ(Trigger().state, JOBSCOPE_TRIGGER_OPEN);
    }
  }
  const jobscope_trigger_info info = Trigger();
  EXPECT_EQ(info.state, JOBSCOPE_TRIGGER_CLOSED);
  EXPECT_EQ(info.first_step, 100);
  EXPECT_EQ(info.last_step, 102);
  EXPECT_EQ(Reader()->mask(), JOBSCOPE_BIT_STEP);
  const auto steps = Recent(3);
  EXPECT_EQ(info.open_ticks, steps[0].begin_ticks);
  EXPECT_EQ(info.close_ticks, steps[2].end_ticks);
  TrainStep(103);
  EXPECT_EQ(Trigger().state, JOBSCOPE_TRIGGER_CLOSED);
}

TEST_F(Steps, NumbersThatSkipTheBoundsOpenAndCloseAtTheNextOnes) {
  Reader()->arm_trigger(10, 20, JOBSCOPE_BIT_LEVEL1);
  TrainStep(8);
  TrainStep(15);
  EXPECT_EQ(Trigger().first_step, 15);
  TrainStep(31);
  EXPECT_EQ(Trigger().state, JOBSCOPE_TRIGGER_CLOSED);
  EXPECT_EQ(Trigger().last_step, 31);
}

// As many steps as were wanted, where the first of them was missed.
TEST_F(Steps, AWindowThatOpensLateIsAsLong) {
  TrainStep(50);
  Reader()->arm_trigger(48, 50, JOBSCOPE_BIT_LEVEL1);
  for (const int64_t number : {51, 52}) TrainStep(number);
  EXPECT_EQ(Trigger().first_step, 51);
  EXPECT_EQ(Trigger().state, JOBSCOPE_TRIGGER_OPEN);
  TrainStep(53);
  EXPECT_EQ(Trigger().state, JOBSCOPE_TRIGGER_CLOSED);
  EXPECT_EQ(Trigger().last_step, 53);

  const uint64_t before = Reader()->step_count();
  Reader()->arm_trigger_by_ordinal(before, before + 1, JOBSCOPE_BIT_LEVEL1);
  TrainStep(0);
  EXPECT_EQ(Trigger().state, JOBSCOPE_TRIGGER_OPEN);
  TrainStep(0);
  EXPECT_EQ(Trigger().state, JOBSCOPE_TRIGGER_CLOSED);
}

// As of a program that counts anew in each epoch, whose numbers never reach a bound that was moved
// past the end of an epoch. In a later epoch and in the first one.
TEST_F(Steps, AWindowThatOpensLateEndsAfterAsManyStepsWhereNumbersRestart) {
  for (const int epochs : {1, 0}) {
    TrainStep(-1000 * (2 - epochs));  // not above the number before
    for (int i = 0; i < epochs * 10 + 4; ++i) TrainStep(i % 10);
    Reader()->arm_trigger(0, 9, JOBSCOPE_BIT_LEVEL1);
    const uint64_t before = Reader()->step_count();
    for (int i = 4; i < 40 && Trigger().state != JOBSCOPE_TRIGGER_CLOSED; ++i) TrainStep(i % 10);
    const jobscope_trigger_info info = Trigger();
    EXPECT_EQ(info.state, JOBSCOPE_TRIGGER_CLOSED);
    EXPECT_EQ(Reader()->step_count(), before + 10);
    EXPECT_EQ(info.first_step, 4);
    EXPECT_EQ(info.last_step, 3);
    EXPECT_EQ(Reader()->mask(), JOBSCOPE_BIT_STEP);
    Reader()->disarm_trigger();
  }
}

// As of a program that marks each micro-batch with its optimizer step's number.
TEST_F(Steps, AWindowThatOpensLateCountsRepeatedNumbersOnce) {
  TrainStep(-1000);
  const auto train_four_times = [](int64_t number) {
    for (int i = 0; i < 4; ++i) TrainStep(number);
  };
  for (int number = 0; number < 4; ++number) train_four_times(number);
  TrainStep(4);
  Reader()->arm_trigger(0, 9, JOBSCOPE_BIT_LEVEL1);
  for (int i = 0; i < 3; ++i) TrainStep(4);
  for (int number = 5; number < 20; ++number) train_four_times(number);
  EXPECT_EQ(Trigger().state, JOBSCOPE_TRIGGER_CLOSED);
  EXPECT_EQ(Trigger().first_step, 4);
  EXPECT_EQ(Trigger().last_step, 13);
}

TEST_F(Steps, OneStep) {
  Reader()->arm_trigger(5, 5, JOBSCOPE_BIT_LEVEL1);
  TrainStep(5);
  EXPECT_EQ(Trigger().state, JOBSCOPE_TRIGGER_CLOSED);
  EXPECT_EQ(Trigger().first_step, 5);
  EXPECT_EQ(Trigger().last_step, 5);
}

TEST_F(Steps, DisarmedAndArmedAnew) {
  Reader()->arm_trigger(5, 6, JOBSCOPE_BIT_LEVEL1);
  Reader()->disarm_trigger();
  TrainStep(5);
  EXPECT_EQ(Trigger().state, JOBSCOPE_TRIGGER_IDLE);
  EXPECT_EQ(Reader()->mask(), JOBSCOPE_BIT_STEP);
  Reader()->arm_trigger(7, 9, JOBSCOPE_BIT_LEVEL1);
  TrainStep(7);
  Reader()->arm_trigger(20, 21, JOBSCOPE_BIT_LEVEL2);
  EXPECT_EQ(Trigger().state, JOBSCOPE_TRIGGER_ARMED);
  Reader()->set_mask(JOBSCOPE_HOLDER_SESSION, JOBSCOPE_BIT_STEP);
  TrainStep(20, [] { EXPECT_EQ(Reader()->mask(), JOBSCOPE_BIT_STEP | JOBSCOPE_BIT_LEVEL2); });
  TrainStep(21);
  EXPECT_EQ(Trigger().state, JOBSCOPE_TRIGGER_CLOSED);
}

TEST_F(Steps, OneThreadOpensAndOneClosesHoweverManyRace) {
  for (int round = 0; round < 50; ++round) {
    Reader()->arm_trigger(1000, 1010, JOBSCOPE_BIT_LEVEL1);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        for (int64_t number = 990; number < 1020; ++number) TrainStep(number);
      });
    }
    for (std::thread& thread : threads) thread.join();
    const jobscope_trigger_info info = Trigger();
    ASSERT_EQ(info.state, JOBSCOPE_TRIGGER_CLOSED);
    ASSERT_GE(info.first_step, 1000);
    ASSERT_GE(info.last_step, 1010);
    ASSERT_LT(info.open_ticks, info.close_ticks);
    ASSERT_EQ(Reader()->mask(), JOBSCOPE_BIT_STEP);
  }
}

// ---- by ordinal ----

jobscope_trigger_info OrdinalTrigger(uint64_t* first, uint64_t* last) {
  Reader()->trigger_ordinals(first, last);
  return Trigger();
}

// As of a program that gives no number.
TEST_F(Steps, ATriggerByOrdinalCountsStepsOfOneNumber) {
  const uint64_t before = Reader()->step_count();
  Reader()->arm_trigger_by_ordinal(before + 2, before + 4, JOBSCOPE_BIT_LEVEL1);
  uint64_t first = 1;
  uint64_t last = 1;
  TrainStep(0, [] { EXPECT_EQ(Reader()->mask(), JOBSCOPE_BIT_STEP); });
  EXPECT_EQ(OrdinalTrigger(&first, &last).state, JOBSCOPE_TRIGGER_ARMED);
  EXPECT_EQ(first, 0u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Trigger().state, i == 0 ? JOBSCOPE_TRIGGER_ARMED : JOBSCOPE_TRIGGER_OPEN);
    TrainStep(0, [] { EXPECT_EQ(Reader()->mask(), JOBSCOPE_BIT_STEP | JOBSCOPE_BIT_LEVEL1); });
  }
  const jobscope_trigger_info info = OrdinalTrigger(&first, &last);
  EXPECT_EQ(info.state, JOBSCOPE_TRIGGER_CLOSED);
  EXPECT_EQ(first, before + 2);
  EXPECT_EQ(last, before + 4);
  EXPECT_EQ(info.first_step, 0);
  EXPECT_EQ(Reader()->mask(), JOBSCOPE_BIT_STEP);
  const auto steps = Recent(3);
  EXPECT_EQ(info.open_ticks, steps[0].begin_ticks);
  EXPECT_EQ(info.close_ticks, steps[2].end_ticks);
}

// As of a program that counts anew in each epoch: by number, this would not close for a long time.
TEST_F(Steps, ATriggerByOrdinalGoesOverTheEndOfAnEpoch) {
  const uint64_t before = Reader()->step_count();
  Reader()->arm_trigger_by_ordinal(before + 2, before + 5, JOBSCOPE_BIT_LEVEL1);
  for (const int64_t number : {97, 98, 99, 0, 1}) TrainStep(number);
  const jobscope_trigger_info info = Trigger();
  EXPECT_EQ(info.state, JOBSCOPE_TRIGGER_CLOSED);
  EXPECT_EQ(info.first_step, 98);
  EXPECT_EQ(info.last_step, 1);
}

TEST_F(Steps, AnOrdinalThatIsOverOpensWithTheNextStep) {
  TrainStep(0);
  TrainStep(0);
  const uint64_t before = Reader()->step_count();
  Reader()->arm_trigger_by_ordinal(1, 1, JOBSCOPE_BIT_LEVEL1);
  TrainStep(0);
  uint64_t first = 0;
  uint64_t last = 0;
  EXPECT_EQ(OrdinalTrigger(&first, &last).state, JOBSCOPE_TRIGGER_CLOSED);
  EXPECT_EQ(first, before + 1);
  EXPECT_EQ(last, before + 1);
}

TEST_F(Steps, TheNextTriggerIsByNumberAgain) {
  Reader()->arm_trigger_by_ordinal(UINT64_MAX, UINT64_MAX, JOBSCOPE_BIT_LEVEL1);
  TrainStep(5);
  EXPECT_EQ(Trigger().state, JOBSCOPE_TRIGGER_ARMED);
  Reader()->arm_trigger(6, 6, JOBSCOPE_BIT_LEVEL1);
  TrainStep(5);
  EXPECT_EQ(Trigger().state, JOBSCOPE_TRIGGER_ARMED);
  TrainStep(6);
  EXPECT_EQ(Trigger().state, JOBSCOPE_TRIGGER_CLOSED);
}

TEST_F(Steps, ANumberThatFallsIsRemembered) {
  const uint64_t before = Reader()->step_count();
  TrainStep(INT64_MIN);
  for (const int64_t number : {5, 6, 7}) TrainStep(number);
  EXPECT_LE(Reader()->last_step_fall(), before + 1);
  TrainStep(7);
  EXPECT_EQ(Reader()->last_step_fall(), before + 5);
  TrainStep(8);
  TrainStep(0);
  EXPECT_EQ(Reader()->last_step_fall(), before + 7);
}

TEST_F(Steps, ManyThreadsRaceForAnOrdinal) {
  for (int round = 0; round < 50; ++round) {
    const uint64_t before = Reader()->step_count();
    Reader()->arm_trigger_by_ordinal(before + 20, before + 60, JOBSCOPE_BIT_LEVEL1);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 30; ++i) TrainStep(0);
      });
    }
    for (std::thread& thread : threads) thread.join();
    uint64_t first = 0;
    uint64_t last = 0;
    const jobscope_trigger_info info = OrdinalTrigger(&first, &last);
    ASSERT_EQ(info.state, JOBSCOPE_TRIGGER_CLOSED);
    ASSERT_GE(first, before + 20);
    ASSERT_GE(last, before + 60);
    ASSERT_LT(info.open_ticks, info.close_ticks);
    ASSERT_EQ(Reader()->mask(), JOBSCOPE_BIT_STEP);
  }
}

}  // namespace
}  // namespace jobscope::recorder_test
