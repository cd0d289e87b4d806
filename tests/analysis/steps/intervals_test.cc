// SPDX-License-Identifier: Apache-2.0
#include "analysis/steps/intervals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace jobscope::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(IntervalsTest, UnionOfOverlappingTouchingAndEmptyOnes) {
  EXPECT_THAT(Union({{5, 9}, {0, 2}, {2, 4}, {6, 7}, {12, 12}}),
              ElementsAre(Interval{0, 4}, Interval{5, 9}));
  EXPECT_THAT(Union(Intervals{}), IsEmpty());
}

TEST(IntervalsTest, SubtractCutsAtBothEndsAndInTheMiddle) {
  EXPECT_THAT(Subtract({{0, 10}, {20, 30}}, {{2, 3}, {8, 22}, {29, 40}}),
              ElementsAre(Interval{0, 2}, Interval{3, 8}, Interval{22, 29}));
  EXPECT_THAT(Subtract({{0, 10}}, {{0, 10}}), IsEmpty());
}

TEST(IntervalsTest, IntersectAndCoverage) {
  EXPECT_THAT(Intersect({{0, 10}, {20, 30}}, {{5, 25}}),
              ElementsAre(Interval{5, 10}, Interval{20, 25}));
  EXPECT_THAT(CoverageOf({{0, 10}, {10, 20}, {30, 40}}, {{5, 12}, {15, 35}}), ElementsAre(5, 7, 5));
}

// Against a bitmap, which cannot be wrong.
TEST(IntervalsTest, AgreesWithABitmap) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<bool> in_a(64, false);
    std::vector<bool> in_b(64, false);
    Intervals any_a;
    Intervals any_b;
    for (int i = 0; i < 6; ++i) {
      for (auto* both : {&any_a, &any_b}) {
        const auto begin = static_cast<int64_t>(random() % 60);
        const auto end = begin + static_cast<int64_t>(random() % 5);
        both->push_back({begin, end});
        std::vector<bool>& bits = both == &any_a ? in_a : in_b;
        for (int64_t t = begin; t < end; ++t) bits[static_cast<size_t>(t)] = true;
      }
    }
    const Intervals a = Union(any_a);
    const Intervals b = Union(any_b);
    int64_t either = 0;
    int64_t both = 0;
    int64_t only_a = 0;
    for (size_t t = 0; t < 64; ++t) {
      either += in_a[t] || in_b[t] ? 1 : 0;
      both += in_a[t] && in_b[t] ? 1 : 0;
      only_a += in_a[t] && !in_b[t] ? 1 : 0;
    }
    EXPECT_EQ(Length(Union(a, b)), either);
    EXPECT_EQ(Length(Intersect(a, b)), both);
    EXPECT_EQ(Length(Subtract(a, b)), only_a);
    EXPECT_EQ(CoverageOf({{0, 64}}, b)[0], Length(b));
  }
}

}  // namespace
}  // namespace jobscope::analysis
