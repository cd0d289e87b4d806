// SPDX-License-Identifier: Apache-2.0
#include "analysis/blame/latest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/blame/blame.h"
#include "tests/analysis/blame/made_times.h"

namespace jobscope::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Too irregular for the excess over all steps to be significant.
TEST(LatestTest, WhoIsLateInAFewStepsIsFound) {
  OwnTimes times = Equal(8, 40);
  Slow(&times, 3, 600, /*every=*/10);
  const std::vector<Straggler> found = FindStragglers(Measured(times));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].workers, ElementsAre(3));
  EXPECT_EQ(found[0].late_steps, 4u);
  EXPECT_FALSE(found[0].single);
}

TEST(LatestTest, ANodeThatIsLateInAFewStepsIsFound) {
  OwnTimes times = Equal(16, 40);
  for (const size_t worker : {8, 9, 10, 11}) Slow(&times, worker, 600, /*every=*/10);
  const std::vector<Straggler> found = FindStragglers(Measured(times));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].workers, ElementsAre(8, 9, 10, 11));
  EXPECT_EQ(found[0].node, "node2");
  EXPECT_EQ(found[0].late_steps, 4u);
}

TEST(LatestTest, WhoTakesTurnsInBeingLateIsNotBlamed) {
  OwnTimes times = Equal(8, 40);
  for (const size_t turn : {0, 1, 2, 3}) times.own_ns[turn][turn * 10 + 7] += 300e6;
  EXPECT_THAT(FindStragglers(Measured(times)), IsEmpty());
  EXPECT_FALSE(FindLatest(Measured(times)).has_value());
}

// Work per step that grows with the number of steps would take minutes.
TEST(LatestTest, AMillionSteps) {
  OwnTimes times;
  times.transfer_ns.assign(1'000'000, 20);
  times.own_ns.assign(2, std::vector<double>(1'000'000, 100));
  times.nodes = {"a", "b"};
  Slow(&times, 1, /*ms=*/1e-4, /*every=*/10);
  const std::optional<Latest> latest = FindLatest(Measured(times));
  ASSERT_TRUE(latest.has_value());
  EXPECT_THAT(latest->workers, ElementsAre(1));
  EXPECT_EQ(latest->late_steps, 100'000u);
}

}  // namespace
}  // namespace jobscope::analysis
