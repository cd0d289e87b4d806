// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/step_pattern.h"

#include <gtest/gtest.h>

#include <vector>

namespace jobscope::host {
namespace {

// `count` steps, of which each `period`-th takes `ratio` times as long as the others.
std::vector<double> Steps(size_t count, size_t period, double ratio) {
  std::vector<double> lengths;
  for (size_t i = 0; i < count; ++i) {
    const double uneven = 1 + 0.01 * static_cast<double>(i % 7);
    lengths.push_back(i % period == 1 % period ? ratio * uneven : uneven);
  }
  return lengths;
}

TEST(StepPattern, IsFoundWhereEachNthStepIsLong) {
  for (const size_t period : {2u, 3u, 20u}) {
    const auto found = FindStepPattern(Steps(240, period, 30));
    ASSERT_TRUE(found.has_value()) << period;
    EXPECT_EQ(found->period, period);
    EXPECT_NEAR(found->long_s, 30, 3);
    EXPECT_NEAR(found->short_s, 1, 0.1);
  }
}

TEST(StepPattern, SurvivesPausesOfTheMachine) {
  std::vector<double> lengths = Steps(100, 2, 30);
  lengths[10] = 500;
  lengths[40] = 35;
  const auto found = FindStepPattern(lengths);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->period, 2u);
}

TEST(StepPattern, IsNoneOfStepsThatAreAlikeOrLongAtTimes) {
  EXPECT_FALSE(FindStepPattern({}).has_value());
  EXPECT_FALSE(FindStepPattern(Steps(12, 2, 30)).has_value());  // too few to tell
  EXPECT_FALSE(FindStepPattern(Steps(200, 1, 1)).has_value());
  EXPECT_FALSE(FindStepPattern(Steps(200, 2, 3)).has_value());     // two kinds of batches, say
  EXPECT_FALSE(FindStepPattern(Steps(256, 100, 30)).has_value());  // a checkpoint
  std::vector<double> irregular(200, 1.0);
  for (const size_t at : {3u, 10u, 11u, 40u, 77u, 80u, 120u, 121u, 150u, 199u}) irregular[at] = 30;
  EXPECT_FALSE(FindStepPattern(irregular).has_value());
}

}  // namespace
}  // namespace jobscope::host
