// SPDX-License-Identifier: Apache-2.0
#include "common/clock/clock.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "common/clock/clock_for_testing.h"
#include "jobscope/detail/ticks.h"

namespace jobscope {
namespace {

using int128 = __int128;

constexpr uint64_t kTenHoursNs = 36'000'000'000'000;

// A worker's clocks at `ns` after some boot, with a tick counter of `hertz`.
ClockSample At(uint64_t ns, uint64_t hertz) {
  ClockSample sample;
  sample.ticks = static_cast<uint64_t>(static_cast<unsigned __int128>(ns) * hertz / 1'000'000'000);
  sample.monotonic_ns = ns;
  sample.realtime_ns = 1'700'000'000'000'000'000 + ns;
  return sample;
}

// floor(|distance| * ns / ticks) in ps, with the sign of the distance.
int64_t Reference(uint64_t ticks, uint64_t zero, uint64_t rate_ns, uint64_t rate_ticks) {
  const int128 distance = static_cast<int128>(ticks) - static_cast<int128>(zero);
  const int128 magnitude = distance < 0 ? -distance : distance;
  const int128 ps = magnitude * rate_ns * 1000 / rate_ticks;
  return static_cast<int64_t>(distance < 0 ? -ps : ps);
}

class TickMapTest : public testing::TestWithParam<uint64_t> {};

TEST_P(TickMapTest, IsExactOverTenHoursInBothDirections) {
  const uint64_t hertz = GetParam();
  const ClockSample early = At(5'000'000'000, hertz);
  const ClockSample late = At(7'123'456'789, hertz);
  const uint64_t zero = late.ticks + 12'345;
  const TickMap map = TickMap::FromSamples(early, late).WithZero(zero);
  const uint64_t reach = At(kTenHoursNs, hertz).ticks;

  std::mt19937_64 random(hertz);
  for (int i = 0; i < 200'000; ++i) {
    const uint64_t distance = random() % reach;
    const uint64_t ticks = i % 2 == 0 ? zero + distance : zero - distance % zero;
    const int64_t want =
        Reference(ticks, zero, late.monotonic_ns - early.monotonic_ns, late.ticks - early.ticks);
    const int64_t got = map.ToPs(ticks);
    // The rate has 64 fractional bits: over 10 h that is less than one ps, so the floors differ by
    // one at most.
    ASSERT_LE(std::abs(got - want), 1) << "ticks " << ticks;
    ASSERT_EQ(map.FromPs(got), ticks);
  }
}

TEST_P(TickMapTest, KeepsTheOrderAcrossTheZero) {
  const uint64_t hertz = GetParam();
  const uint64_t zero = 1'000'000'000'000;
  const TickMap map =
      TickMap::FromSamples(At(1'000'000'000, hertz), At(2'000'000'007, hertz)).WithZero(zero);
  std::mt19937_64 random(hertz + 1);
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t a = zero - 50'000 + random() % 100'000;
    const uint64_t b = a + random() % 3;
    ASSERT_LE(map.ToPs(a), map.ToPs(b));
  }
  EXPECT_EQ(map.ToPs(zero), 0);
  EXPECT_LT(map.ToPs(zero - 1), 0);
  EXPECT_GT(map.ToPs(zero + 1), 0);
}

TEST_P(TickMapTest, MapsOtherClocksThroughTheAnchor) {
  const uint64_t hertz = GetParam();
  const ClockSample early = At(5'000'000'000, hertz);
  const ClockSample late = At(6'000'000'000, hertz);
  const TickMap map = TickMap::FromSamples(early, late);
  EXPECT_EQ(map.ToUnixNs(late.ticks), static_cast<int64_t>(late.realtime_ns));
  EXPECT_EQ(map.FromMonotonicNs(late.monotonic_ns), late.ticks);
  EXPECT_EQ(map.FromUnixNs(static_cast<int64_t>(late.realtime_ns)), late.ticks);
  // One hour before and after, to a tick.
  const int64_t tick_ns = 1 + static_cast<int64_t>(1'000'000'000 / hertz);
  for (const int64_t hours : {-1, 1}) {
    const int64_t ns = hours * 3'600'000'000'000;
    const int64_t unix_ns = static_cast<int64_t>(late.realtime_ns) + ns;
    if (ns < 0 && late.ticks < At(static_cast<uint64_t>(-ns), hertz).ticks) continue;
    EXPECT_LE(std::abs(map.ToUnixNs(map.FromUnixNs(unix_ns)) - unix_ns), tick_ns);
  }
  EXPECT_NEAR(map.ticks_per_second(), static_cast<double>(hertz),
              static_cast<double>(hertz) * 1e-8);
}

INSTANTIATE_TEST_SUITE_P(Rates, TickMapTest,
                         testing::Values(1'000'000'000, 2'596'123'457, 4'999'999'999, 24'000'000),
                         [](const auto& info) { return std::to_string(info.param) + "Hz"; });

TEST(TickMapTest, MonotonicTicksAreExactNanoseconds) {
  const TickMap map =
      TickMap::FromSamples(At(1'000'000'001, 1'000'000'000), At(1'300'000'007, 1'000'000'000))
          .WithZero(17);
  EXPECT_EQ(map.ToPs(17 + 123'456'789), 123'456'789'000);
  EXPECT_EQ(map.ToPs(10), -7'000);
  EXPECT_EQ(map.FromMonotonicNs(42), 42u);
}

TEST(TickMapTest, SaturatesInsteadOfWrapping) {
  const TickMap map = TickMap().WithZero(0);
  EXPECT_EQ(map.ToPs(UINT64_MAX), INT64_MAX);
  EXPECT_EQ(map.WithZero(UINT64_MAX).ToPs(0), -INT64_MAX);
  EXPECT_EQ(map.WithZero(100).FromPs(INT64_MIN), 0u);
  EXPECT_EQ(map.FromUnixNs(-1), 0u);
}

TEST(TickMapTest, EqualSamplesGiveNanoseconds) {
  const ClockSample sample = At(1'000'000'000, 3'000'000'000);
  EXPECT_DOUBLE_EQ(TickMap::FromSamples(sample, sample).ticks_per_second(), 1e9);
}

TEST(SampleClocksTest, BracketsBothClocks) {
  for (const bool uses_tsc : {false, true}) {
    const uint64_t before = detail::ReadTicks(uses_tsc);
    const ClockSample sample = SampleClocks(uses_tsc);
    const uint64_t after = detail::ReadTicks(uses_tsc);
    EXPECT_GE(sample.ticks, before);
    EXPECT_LE(sample.ticks, after);
    EXPECT_LE(sample.bracket_ticks, after - before);
    EXPECT_GT(sample.realtime_ns, 1'600'000'000'000'000'000u);
    if (!uses_tsc) {
      EXPECT_EQ(sample.ticks, sample.monotonic_ns);
    }
  }
}

TEST_P(TickMapTest, MonotonicThereAndBack) {
  const uint64_t hertz = GetParam();
  const ClockSample early = At(3'600'000'000'000, hertz);
  const ClockSample late = At(3'700'000'000'000, hertz);
  const TickMap map = TickMap::FromSamples(early, late).WithZero(early.ticks);
  const uint64_t tick_ns = 1 + 1'000'000'000 / hertz;
  EXPECT_EQ(map.ToMonotonicNs(late.ticks), late.monotonic_ns);
  for (const uint64_t ns : {late.monotonic_ns - 50'000'000'123, late.monotonic_ns + 12'345'678}) {
    const uint64_t back = map.ToMonotonicNs(map.FromMonotonicNs(ns));
    EXPECT_LE(std::max(back, ns) - std::min(back, ns), tick_ns);
  }
  EXPECT_EQ(TickMap().ToMonotonicNs(UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(map.ToMonotonicNs(0), 0u) << "not before the clock began";
}

TEST(RealtimeTest, CanBeShiftedForTests) {
  const ClockSample before = SampleClocks(true);
  const int64_t realtime_ns = RealtimeNs();
  EXPECT_GE(realtime_ns, static_cast<int64_t>(before.realtime_ns));
  ShiftRealtimeForTesting(-7'000'000'000);
  const int64_t shifted_ns = RealtimeNs();
  const ClockSample after = SampleClocks(true);
  ShiftRealtimeForTesting(0);
  EXPECT_LT(shifted_ns, realtime_ns);
  EXPECT_GE(shifted_ns, realtime_ns - 7'000'000'000);
  EXPECT_LT(after.realtime_ns, before.realtime_ns);
  EXPECT_GE(after.monotonic_ns, before.monotonic_ns);
  EXPECT_LE(after.monotonic_ns, WorkerMonotonicNs());
  EXPECT_GE(RealtimeNs(), realtime_ns);
}

TEST(SampleClocksTest, NoTriesMeanOne) { EXPECT_NE(SampleClocks(false, 0).ticks, 0u); }

}  // namespace
}  // namespace jobscope
