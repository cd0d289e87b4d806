// SPDX-License-Identifier: Apache-2.0
#include "server/native/step_progress.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace jobscope {
namespace {

TEST(WindowStepsTest, CountsFromTheStartOrFromTheFirstOfTheRange) {
  StepHistory history;
  history.count = 9;
  WindowSteps by_time;
  EXPECT_EQ(by_time.Count(history), 0u);
  by_time.OnStarted(9);
  EXPECT_EQ(by_time.Count(history), 0u);
  history.count = 12;
  EXPECT_EQ(by_time.Count(history), 3u);

  WindowSteps by_ordinal;
  by_ordinal.SetRange(StepRange{11, 20, /*by_ordinal=*/true});
  by_ordinal.OnStarted(9);
  EXPECT_EQ(by_ordinal.Count(history), 2u);
}

TEST(StepStateTest, IsUnsetWithoutSteps) { EXPECT_FALSE(StepStateOf({}).has_value()); }

TEST(StepStateTest, ReportsTheNewestStepAndTheRecentRate) {
  StepHistory history;
  history.count = 1'000;
  // From one start to the next: 30 ms, then 10 ms.
  for (int64_t i = 0; i < 100; ++i) {
    const absl::Duration begun_ago = absl::Milliseconds(170 + 30 * (99 - i));
    history.recent.push_back({i, absl::Milliseconds(5), begun_ago - absl::Milliseconds(5)});
  }
  for (int64_t i = 100; i < 117; ++i) {
    const absl::Duration begun_ago = absl::Milliseconds(10 * (117 - i));
    history.recent.push_back({i, absl::Milliseconds(8), begun_ago - absl::Milliseconds(8)});
  }
  auto state = StepStateOf(history);
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state->begun(), 1'000U);
  EXPECT_EQ(state->current(), 116);
  EXPECT_DOUBLE_EQ(state->step_time_ms(), 10);  // of the newest steps
  EXPECT_EQ(state->age_ns(), 10'000'000U);
  EXPECT_TRUE(state->increasing());
  history.current = StepTiming{0, absl::Milliseconds(1), absl::ZeroDuration()};  // an epoch begins
  state = StepStateOf(history);
  EXPECT_EQ(state->current(), 0);
  EXPECT_EQ(state->age_ns(), 1'000'000U);
  EXPECT_FALSE(state->increasing());
}

TEST(StepStateTest, APauseDoesNotCountAsAStepTime) {
  StepHistory history;
  history.count = 20;
  absl::Duration begun_ago = absl::Milliseconds(2 * 20 + 5'000);
  for (int64_t i = 0; i < 20; ++i) {
    history.recent.push_back({i, absl::Milliseconds(2), begun_ago - absl::Milliseconds(2)});
    begun_ago -= absl::Milliseconds(i == 15 ? 5'002 : 2);
  }
  EXPECT_DOUBLE_EQ(StepStateOf(history)->step_time_ms(), 2);
}

TEST(StepStateTest, AStepWithoutAnEndIsNotTheNewest) {
  StepHistory history;
  history.count = 4;
  history.current = StepTiming{1, absl::Milliseconds(90), absl::ZeroDuration()};
  for (const int64_t step : {0, 2, 3}) {
    history.recent.push_back(
        {step, absl::Milliseconds(10), absl::Milliseconds(20 + 30 * (3 - step))});
  }
  const auto state = StepStateOf(history);
  EXPECT_EQ(state->current(), 3);
  EXPECT_DOUBLE_EQ(state->step_time_ms(), 30);
  EXPECT_TRUE(state->increasing());
}

TEST(StepStateTest, NumbersThatFallInEachEpochDoNotIncrease) {
  StepHistory history;
  history.count = 1'050;
  history.current = StepTiming{50, absl::Milliseconds(1), absl::ZeroDuration()};
  history.last_fall = 1'000;
  auto state = StepStateOf(history);
  EXPECT_FALSE(state->increasing());
  EXPECT_TRUE(state->by_ordinal());
  // Steps of a warm-up, then those of the training.
  history.last_fall = 11;
  EXPECT_TRUE(StepStateOf(history)->increasing());
}

TEST(StepStateTest, OneStepHasNoRate) {
  StepHistory history;
  history.count = 1;
  history.current = StepTiming{7, absl::Milliseconds(3), absl::ZeroDuration()};
  const auto state = StepStateOf(history);
  EXPECT_EQ(state->current(), 7);
  EXPECT_DOUBLE_EQ(state->step_time_ms(), 0);
  EXPECT_TRUE(state->increasing());
}

}  // namespace
}  // namespace jobscope
