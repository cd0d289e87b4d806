// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assemble/part_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/xspace/assemble/line_merge.h"
#include "tests/common/xspace/assemble/trace_util.h"

namespace jobscope::xspace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr size_t kEventBytes = 8;  // starts below 128

// One plane with one line with one segment of events at these starts, each of 1 ps.
class PartPlanTest : public ::testing::Test {
 protected:
  void SetStarts(std::vector<int64_t> starts) {
    std::sort(starts.begin(), starts.end());
    XLine line;
    for (const int64_t start : starts) {
      auto* const event = line.add_events();
      event->set_metadata_id(1);
      event->set_offset_ps(start);
      event->set_duration_ps(1);
    }
    bytes_ = line.SerializeAsString();
    Segment segment;
    segment.events = bytes_;
    segment.count = starts.size();
    segment.first = {ToSpread(static_cast<uint64_t>(starts.front())), 1};
    segment.last = {ToSpread(static_cast<uint64_t>(starts.back())), 1};
    planes_.resize(1);
    planes_[0].lines.resize(1);
    planes_[0].lines[0].segments = {segment};
  }

  // Bytes of events of each part.
  std::vector<size_t> Sizes(std::vector<int64_t> cuts) const {
    std::vector<size_t> sizes;
    cuts.push_back(std::numeric_limits<int64_t>::max());
    int64_t begin = 0;
    for (const int64_t cut : cuts) {
      EXPECT_GE(cut, begin);
      sizes.push_back(Cut(planes_[0].lines[0].segments[0], begin, cut).events.size());
      begin = cut;
    }
    return sizes;
  }

  std::string bytes_;
  std::vector<IndexedPlane> planes_;
};

TEST_F(PartPlanTest, WhatFitsIsNotCut) {
  SetStarts({1, 2, 3});
  EXPECT_THAT(PlanCuts(planes_, 3 * kEventBytes, 3 * kEventBytes), IsEmpty());
  EXPECT_THAT(PlanCuts({}, 0, 0), IsEmpty());
}

TEST_F(PartPlanTest, PartsAreFilled) {
  SetStarts({1, 2, 3, 4, 5});
  EXPECT_THAT(Sizes(PlanCuts(planes_, 2 * kEventBytes, 2 * kEventBytes)),
              ElementsAre(2 * kEventBytes, 2 * kEventBytes, kEventBytes));
}

TEST_F(PartPlanTest, OneStartIsNeverParted) {
  SetStarts({1, 5, 5, 5, 5, 9});
  EXPECT_THAT(Sizes(PlanCuts(planes_, 2 * kEventBytes, 2 * kEventBytes)),
              ElementsAre(kEventBytes, 4 * kEventBytes, kEventBytes));
}

TEST_F(PartPlanTest, AFirstPartWithoutRoomHoldsNoEvents) {
  SetStarts({1, 2});
  EXPECT_THAT(Sizes(PlanCuts(planes_, 0, 2 * kEventBytes)), ElementsAre(0, 2 * kEventBytes));
}

TEST_F(PartPlanTest, RandomTracesKeepTheBudgetAndUseIt) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::vector<int64_t> starts;
    // Clusters at far distances, so that several levels of histograms are needed.
    for (size_t cluster = 1 + random() % 6; cluster > 0; --cluster) {
      const auto at = static_cast<int64_t>(random() % (uint64_t{1} << (10 + random() % 40)));
      const uint64_t width = uint64_t{1} << (random() % 30);
      for (size_t i = 50 + random() % 2000; i > 0; --i) {
        starts.push_back(at + static_cast<int64_t>(random() % width));
      }
    }
    SetStarts(starts);
    std::sort(starts.begin(), starts.end());
    size_t most_equal = 1;
    for (size_t i = 0, run = 0; i < starts.size(); ++i) {
      run = i > 0 && starts[i] == starts[i - 1] ? run + 1 : 1;
      most_equal = std::max(most_equal, run);
    }
    const size_t budget = 600 + random() % 20'000;
    const size_t largest_group = most_equal * 20;
    const std::vector<size_t> sizes = Sizes(PlanCuts(planes_, budget, budget));
    size_t total = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_LE(sizes[i], std::max(budget, largest_group)) << "part " << i;
      EXPECT_GT(sizes[i], 0U) << "part " << i;
      // Two neighbours would never have fitted into one, but for what a bucket wastes.
      if (i > 0 && largest_group < budget / 32) {
        EXPECT_GT(sizes[i] + sizes[i - 1], budget * 9 / 10) << "part " << i;
      }
      total += sizes[i];
    }
    EXPECT_EQ(total, bytes_.size());
  }
}

}  // namespace
}  // namespace jobscope::xspace
