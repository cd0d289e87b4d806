// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/events/step_timeline.h"

#include <gtest/gtest.h>

#include <vector>

namespace jobscope::cuda {
namespace {

TEST(StepTimelineTest, FindsTheStepOfAnInstant) {
  std::vector<StepSpan> source = {{1, 100, 200}, {2, 200, 300}, {3, 350, 0}};
  StepTimeline steps([&] { return source; });
  steps.Update();
  EXPECT_EQ(steps.Find(50), nullptr);
  ASSERT_NE(steps.Find(150), nullptr);
  EXPECT_EQ(steps.Find(150)->number, 1);
  EXPECT_EQ(steps.Find(200)->number, 2);
  EXPECT_EQ(steps.Find(320), nullptr);
  EXPECT_EQ(steps.Find(1000)->number, 3);
  source = {{3, 350, 400}, {4, 400, 0}};
  steps.Update();
  EXPECT_EQ(steps.Find(360)->end_ticks, 400u);
  EXPECT_EQ(steps.Find(150)->number, 1);
  EXPECT_EQ(steps.Whole(100, 400), 3u);
  EXPECT_EQ(steps.Whole(150, 399), 1u);
  StepTimeline none{RecentSteps()};
  none.Update();
  EXPECT_EQ(none.Find(1), nullptr);
}

}  // namespace
}  // namespace jobscope::cuda
