// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/records/clock_map.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace jobscope::cuda {
namespace {

// A pair of clocks of which the test says how they run.
struct Clocks {
  uint64_t ticks = 1'000'000'000;
  double ticks_per_ns = 2.5;
  double ns = 1.7e18;
  void Pass(double ns_passed) {
    ns += ns_passed;
    ticks += static_cast<uint64_t>(std::llround(ns_passed * ticks_per_ns));
  }
  ClockMap Map() {
    return ClockMap([this] { return static_cast<uint64_t>(ns); }, [this] { return ticks; }, 2.5e9);
  }
};

double Distance(uint64_t a, uint64_t b) {
  return std::abs(static_cast<double>(static_cast<int64_t>(a - b)));
}

TEST(ClockMapTest, FollowsAClockThatIsSlewed) {
  Clocks clocks;
  ClockMap map = clocks.Map();
  map.AddKnot();
  std::vector<std::pair<uint64_t, uint64_t>> truth;
  for (int i = 0; i < 50; ++i) {
    clocks.ticks_per_ns = 2.5 * (1 + (i % 2 == 0 ? 4e-4 : -4e-4));
    for (int k = 0; k < 10; ++k) {
      clocks.Pass(1e7);
      truth.emplace_back(static_cast<uint64_t>(clocks.ns), clocks.ticks);
    }
    map.AddKnot();
  }
  EXPECT_EQ(map.steps(), 0u);
  // ns of 2^60 have a grain of 256 in a double: so much may the truth itself be off.
  for (const auto& [ns, ticks] : truth) EXPECT_LT(Distance(map.ToTicks(ns), ticks), 1000);
}

TEST(ClockMapTest, AStepIsCountedAndNothingBeforeItMoves) {
  Clocks clocks;
  ClockMap map = clocks.Map();
  map.AddKnot();
  clocks.Pass(1e8);
  map.AddKnot();
  const auto before_ns = static_cast<uint64_t>(clocks.ns);
  const uint64_t before_ticks = clocks.ticks;
  clocks.ns += 5e9;  // set forward
  clocks.Pass(1e8);
  map.AddKnot();
  EXPECT_EQ(map.steps(), 1u);
  EXPECT_LT(Distance(map.ToTicks(before_ns), before_ticks), 1000);
  EXPECT_LT(Distance(map.ToTicks(static_cast<uint64_t>(clocks.ns)), clocks.ticks), 1000);
  clocks.ns -= 60e9;  // and back
  clocks.Pass(1e8);
  map.AddKnot();
  EXPECT_EQ(map.steps(), 2u);
  EXPECT_LT(Distance(map.ToTicks(static_cast<uint64_t>(clocks.ns)), clocks.ticks), 1000);
}

// Nanoseconds since 1970 have a grain of 256 in a double.
TEST(ClockMapTest, IsExactToANanosecondAndNeverStepsBack) {
  uint64_t ns = 1'800'000'000'000'000'077;
  constexpr uint64_t kOffset = 1'799'999'000'000'000'000;
  ClockMap map([&ns] { return ns; }, [&ns] { return ns - kOffset; }, 1e9);
  std::vector<uint64_t> knots;
  for (int i = 0; i < 50; ++i) {
    map.AddKnot();
    knots.push_back(ns);
    ns += 100'000'101;
  }
  ASSERT_EQ(map.knots(), knots.size());
  uint64_t last = 0;
  for (const uint64_t knot : knots) {
    for (const uint64_t at : {knot - 1, knot, knot + 1, knot + 50'000'000}) {
      const uint64_t ticks = map.ToTicks(at);
      EXPECT_LE(Distance(ticks, at - kOffset), 1);
      EXPECT_GE(ticks, last) << at;
      last = ticks;
    }
  }
}

// Clocks that run on while they are read. Another profiler of the process gives CUPTI the ticks as
// its clock, as PyTorch's does.
struct RunningClocks {
  uint64_t ticks = 7'000'000'000'000;
  bool counts_ticks = false;
  uint64_t Ticks() { return ticks += 25; }
  uint64_t CuptiTime() {
    ticks += 25;
    return counts_ticks ? ticks : 1'800'000'000'000'000'000 + ticks * 2 / 5;
  }
  ClockMap Map() {
    return ClockMap([this] { return CuptiTime(); }, [this] { return Ticks(); }, 2.5e9);
  }
};
constexpr uint64_t kTenthOfASecond = 250'000'000;  // in ticks

TEST(ClockMapTest, FollowsAClockThatCountsTicks) {
  RunningClocks clocks;
  clocks.counts_ticks = true;
  ClockMap map = clocks.Map();
  map.SetRate(2.5e9);
  map.AddKnot();
  const uint64_t first = clocks.ticks;
  // Before there is a second knot the rate is a guess from 20 us.
  EXPECT_LT(Distance(map.ToTicks(first + 25'000), first + 25'000), 200);
  for (int i = 0; i < 20; ++i) {
    clocks.ticks += kTenthOfASecond;
    map.AddKnot();
  }
  EXPECT_EQ(map.steps(), 0u);
  for (uint64_t at = first; at < clocks.ticks; at += 1'234'567) {
    EXPECT_LT(Distance(map.ToTicks(at), at), 50) << at;
  }
}

TEST(ClockMapTest, ADifferentClockInTheMiddleIsOneStep) {
  RunningClocks clocks;
  ClockMap map = clocks.Map();
  const auto pass = [&] {
    for (int i = 0; i < 5; ++i) {
      clocks.ticks += kTenthOfASecond;
      map.AddKnot();
    }
  };
  pass();
  EXPECT_EQ(map.steps(), 0u);
  clocks.counts_ticks = true;
  pass();
  EXPECT_EQ(map.steps(), 1u);
  EXPECT_LT(Distance(map.ToTicks(clocks.ticks), clocks.ticks), 50);
  clocks.counts_ticks = false;
  pass();
  EXPECT_EQ(map.steps(), 2u);
  const uint64_t time = clocks.CuptiTime();
  EXPECT_LT(Distance(map.ToTicks(time), clocks.ticks), 50);
}

TEST(ClockMapTest, ABrokenClockGivesNoKnot) {
  ClockMap map([] { return uint64_t{0}; }, [] { return uint64_t{5}; }, 1e9);
  map.AddKnot();
  EXPECT_EQ(map.knots(), 0u);
  EXPECT_EQ(map.ToTicks(123), 0u);
}

TEST(ClockMapTest, TimesBeforeAndBehindTheKnotsAreExtrapolated) {
  Clocks clocks;
  ClockMap map = clocks.Map();
  clocks.Pass(1e9);
  map.AddKnot();
  const auto ns = static_cast<uint64_t>(clocks.ns);
  EXPECT_LT(Distance(map.ToTicks(ns - 1'000'000), clocks.ticks - 2'500'000), 1000);
  EXPECT_LT(Distance(map.ToTicks(ns + 1'000'000), clocks.ticks + 2'500'000), 1000);
}

}  // namespace
}  // namespace jobscope::cuda
