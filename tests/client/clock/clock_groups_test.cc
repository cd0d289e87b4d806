// SPDX-License-Identifier: Apache-2.0
#include "client/clock/clock_groups.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <random>

#include "common/clock/clock_id.h"

namespace jobscope {
namespace {

constexpr int64_t kMs = 1'000'000;

MeasuredClock Measured(const std::string& id, int64_t offset_ns, uint64_t uncertainty_ns) {
  ClockEstimate estimate;
  estimate.offset_ns = offset_ns;
  estimate.uncertainty_ns = uncertainty_ns;
  estimate.realtime_offset_ns = offset_ns + 7'000 * kMs;
  return {id, estimate};
}

TEST(ClockGroups, WorkersOfOneHostTakeTheNarrowestCommonPart) {
  std::vector<MeasuredClock> clocks = {Measured("a", 100 * kMs, 2 * kMs),
                                       Measured("a", 120 * kMs, 25 * kMs),
                                       Measured("b", 500 * kMs, 3 * kMs)};
  CombineClocks("own", &clocks);
  EXPECT_EQ(clocks[0].estimate->offset_ns, 100 * kMs);
  EXPECT_EQ(clocks[1].estimate->offset_ns, 100 * kMs);
  EXPECT_NEAR(static_cast<double>(clocks[1].estimate->uncertainty_ns), 2.0 * kMs, 2.0);
  EXPECT_EQ(clocks[1].estimate->realtime_offset_ns, 7'100 * kMs);
  EXPECT_EQ(clocks[2].estimate->offset_ns, 500 * kMs);
  EXPECT_EQ(clocks[2].estimate->uncertainty_ns, 3u * kMs);
}

TEST(ClockGroups, ALopsidedPathToTheOwnHostDoesNotMatter) {
  // 50 ms on the way there and none on the way back.
  std::vector<MeasuredClock> clocks = {Measured("own", 25 * kMs, 25 * kMs)};
  CombineClocks("own", &clocks);
  EXPECT_EQ(clocks[0].estimate->offset_ns, 0);
  EXPECT_LE(clocks[0].estimate->uncertainty_ns, 1'000u);
}

TEST(ClockGroups, WrongIdsAreNotUsed) {
  std::vector<MeasuredClock> clocks = {Measured("own", 7'000 * kMs, kMs), Measured("a", 0, kMs),
                                       Measured("a", 10 * kMs, kMs)};
  CombineClocks("own", &clocks);
  EXPECT_EQ(clocks[0].estimate->offset_ns, 7'000 * kMs);
  EXPECT_EQ(clocks[1].estimate->offset_ns, 0);
  EXPECT_EQ(clocks[2].estimate->offset_ns, 10 * kMs);
}

TEST(ClockGroups, UnknownClocksStayAlone) {
  std::vector<MeasuredClock> clocks = {
      Measured("", 0, 5 * kMs), Measured("", 2 * kMs, kMs), {"x", {}}};
  CombineClocks("", &clocks);
  EXPECT_EQ(clocks[0].estimate->uncertainty_ns, 5u * kMs);
  EXPECT_EQ(clocks[1].estimate->offset_ns, 2 * kMs);
  EXPECT_FALSE(clocks[2].estimate.has_value());
}

// Whatever the paths do, the truth stays inside of what is said, and nobody's interval gets wider.
TEST(ClockGroups, TheTruthStaysInside) {
  std::mt19937_64 random(1);
  for (int run = 0; run < 1'000; ++run) {
    const auto truth = static_cast<int64_t>(random() % (20'000 * kMs)) - 10'000 * kMs;
    std::vector<MeasuredClock> clocks;
    for (int i = 0; i < 8; ++i) {
      const auto there = static_cast<int64_t>(random() % (60 * kMs)) + 1;
      const auto back = static_cast<int64_t>(random() % (60 * kMs)) + 1;
      clocks.push_back(
          Measured("a", truth + (there - back) / 2, static_cast<uint64_t>(there + back) / 2 + 1));
    }
    const std::vector<MeasuredClock> before = clocks;
    CombineClocks("own", &clocks);
    for (size_t i = 0; i < clocks.size(); ++i) {
      const ClockEstimate& estimate = *clocks[i].estimate;
      EXPECT_LE(std::abs(estimate.offset_ns - truth), estimate.uncertainty_ns);
      EXPECT_LE(estimate.uncertainty_ns, before[i].estimate->uncertainty_ns);
    }
  }
}

TEST(ClockId, IsTheSameForOneProcess) {
  EXPECT_EQ(ClockId(), ClockId());
  EXPECT_EQ(ClockId().size(), 32u);
}

}  // namespace
}  // namespace jobscope
