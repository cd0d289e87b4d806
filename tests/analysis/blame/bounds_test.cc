// SPDX-License-Identifier: Apache-2.0
#include "analysis/blame/bounds.h"

#include <gtest/gtest.h>

#include "analysis/blame/advice.h"

namespace jobscope::analysis {
namespace {

TEST(BoundsTest, TheTablesAreInTheOrderOfTheClasses) {
  for (size_t c = 0; c < kStepClasses; ++c) {
    EXPECT_EQ(Index(kBounds[c].step_class), c);
    EXPECT_FALSE(kBounds[c].reason.empty());
    EXPECT_EQ(Index(kAdvice[c].step_class), c);
    EXPECT_FALSE(kAdvice[c].bound.empty());
    EXPECT_FALSE(kAdvice[c].straggler.empty());
  }
}

TEST(BoundsTest, TheClassThatExceedsItsThresholdMostBounds) {
  Shares shares;
  shares[Index(StepClass::kHost)] = 0.68;
  shares[Index(StepClass::kInput)] = 0.30;
  EXPECT_EQ(ChooseBound(shares), StepClass::kInput);
  shares[Index(StepClass::kInput)] = 0.05;
  EXPECT_EQ(ChooseBound(shares), StepClass::kHost);
  shares[Index(StepClass::kHost)] = 0.4;
  EXPECT_EQ(ChooseBound(shares), std::nullopt);
  shares[Index(StepClass::kHost)] = 0.05;
  shares[Index(StepClass::kDeviceCompute)] = 0.9;
  EXPECT_EQ(ChooseBound(shares), StepClass::kDeviceCompute);
}

// Without a device host work is the computation; beside one it is time in which that is idle.
TEST(BoundsTest, HostWorkBesideADeviceIsJudgedAsLaunchesAre) {
  Shares shares;
  shares[Index(StepClass::kHost)] = 0.3;
  EXPECT_FALSE(IsBound(StepClass::kHost, shares));
  EXPECT_FALSE(IsMendable(StepClass::kHost, shares));
  for (const double share : {0.0, 0.04}) {  // recorded, and hardly used
    shares[Index(StepClass::kDeviceCompute)] = share;
    EXPECT_FALSE(IsBound(StepClass::kHost, shares));
    EXPECT_FALSE(IsMendable(StepClass::kHost, shares));
  }
  shares[Index(StepClass::kDeviceCompute)] = 0.5;
  EXPECT_TRUE(IsBound(StepClass::kHost, shares));
  EXPECT_TRUE(IsMendable(StepClass::kHost, shares));
  EXPECT_EQ(ChooseBound(shares), StepClass::kHost);
  shares[Index(StepClass::kHost)] = 0.19;
  EXPECT_EQ(ChooseBound(shares), std::nullopt);
}

}  // namespace
}  // namespace jobscope::analysis
