// SPDX-License-Identifier: Apache-2.0
#include "analysis/statistics/statistics.h"

#include <gtest/gtest.h>

namespace jobscope::analysis {
namespace {

TEST(StatisticsTest, MediansAndQuantiles) {
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(Median({}), 0);
  EXPECT_NEAR(ScaledMad({1, 2, 3, 4, 100}, 3), 1.4826, 1e-9);
  EXPECT_EQ(Quantile({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0.9), 10);
  EXPECT_EQ(Quantile({1, 2, 3, 4}, 0.5), 3);
}

TEST(StatisticsTest, BootstrapOfAConstantIsThatConstant) {
  const Range range = BootstrapRatio(std::vector<double>(50, 2), std::vector<double>(50, 8));
  EXPECT_EQ(range.low, 0.25);
  EXPECT_EQ(range.high, 0.25);
}

TEST(StatisticsTest, BootstrapOfASingleEventReachesZero) {
  std::vector<double> saved(50, 0);
  saved[17] = 100;
  const Range range = BootstrapRatio(saved, std::vector<double>(50, 10));
  EXPECT_EQ(range.low, 0);
  EXPECT_GT(range.high, 0.2);
}

TEST(StatisticsTest, BootstrapOfAChange) {
  const auto difference = [](double before, double after) { return after - before; };
  const Range sure =
      BootstrapChange(std::vector<double>(50, 2), std::vector<double>(40, 5), difference);
  EXPECT_EQ(sure.low, 3);
  EXPECT_EQ(sure.high, 3);
  std::vector<double> event(40, 0);
  event[17] = 100;
  const Range chance = BootstrapChange(std::vector<double>(50, 0), event, difference);
  EXPECT_EQ(chance.low, 0);
  EXPECT_GT(chance.high, 2.5);
  const Range none = BootstrapChange({}, event, difference);
  EXPECT_EQ(none.low, 0);
  EXPECT_EQ(none.high, 0);
}

TEST(StatisticsTest, TheSameInputGivesTheSameInterval) {
  std::vector<double> saved;
  std::vector<double> all;
  for (int i = 0; i < 100; ++i) {
    saved.push_back(i % 7);
    all.push_back(20 + i % 3);
  }
  const Range once = BootstrapRatio(saved, all);
  const Range again = BootstrapRatio(saved, all);
  EXPECT_EQ(once.low, again.low);
  EXPECT_EQ(once.high, again.high);
  EXPECT_LT(once.low, 3.0 / 21);
  EXPECT_GT(once.high, 2.8 / 21);
}

}  // namespace
}  // namespace jobscope::analysis
