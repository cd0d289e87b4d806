// SPDX-License-Identifier: Apache-2.0
//
// Machines that are suspended, virtual machines that move, processes that are restored, as the
// clocks show them.
#include "common/clock/clock_baseline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "common/clock/clock_watch.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kMillisecond = 1'000'000;

// A machine of which a test says how time goes by.
struct Machine {
  double ticks_per_ns = 2.5;
  double ticks = 1e12;
  uint64_t monotonic_ns = 4000 * kSecond;
  uint64_t suspended_ns = 17 * kSecond;

  ClockSample Sample() const {
    ClockSample sample;
    sample.ticks = static_cast<uint64_t>(ticks);
    sample.monotonic_ns = monotonic_ns;
    sample.bracket_ticks = 250;  // 100 ns
    sample.suspended_ns = static_cast<int64_t>(suspended_ns);
    return sample;
  }
  ClockSample After(uint64_t ns) {
    ticks += static_cast<double>(ns) * ticks_per_ns;
    monotonic_ns += ns;
    return Sample();
  }
};

class WhyClocksDifferTest : public ::testing::Test {
 protected:
  // Of the two samples that a session takes.
  std::string Why() {
    const ClockSample recent = machine_.After(0);
    return WhyClocksDiffer(early_, recent, machine_.After(2 * kMillisecond));
  }
  Machine machine_;
  const ClockSample early_ = machine_.Sample();
};

TEST_F(WhyClocksDifferTest, TimeGoesBy) {
  machine_.After(3600 * kSecond);
  EXPECT_THAT(Why(), IsEmpty());
}

TEST_F(WhyClocksDifferTest, MonotonicIsSlewed) {
  machine_.monotonic_ns += 3600 * kSecond * 500 / 1'000'000;
  machine_.After(3600 * kSecond);
  EXPECT_THAT(Why(), IsEmpty());
}

TEST_F(WhyClocksDifferTest, ASuspendDuringWhichTicksGoOn) {
  machine_.After(60 * kSecond);
  machine_.ticks += 540e9 * machine_.ticks_per_ns;
  machine_.suspended_ns += 540 * kSecond;
  EXPECT_EQ(Why(), "the machine was suspended for 540.0 s");
}

TEST_F(WhyClocksDifferTest, ASuspendThatIsAccountedForNowhere) {
  machine_.After(60 * kSecond);
  machine_.ticks += 540e9 * machine_.ticks_per_ns;
  EXPECT_THAT(Why(), HasSubstr("jumped by 540.000 s"));
}

TEST_F(WhyClocksDifferTest, AReset) {
  machine_.After(60 * kSecond);
  machine_.ticks = 1e6;
  EXPECT_EQ(Why(), "the time stamp counter began anew");
}

TEST_F(WhyClocksDifferTest, AMoveToAMachineThatWasStartedLater) {
  machine_.After(600 * kSecond);
  machine_.ticks -= 500e9 * machine_.ticks_per_ns;
  EXPECT_THAT(Why(), HasSubstr("jumped by -500.000 s"));
}

TEST_F(WhyClocksDifferTest, AMoveToAMachineOfAnotherRate) {
  machine_.After(600 * kSecond);
  machine_.ticks_per_ns = 2.6;
  EXPECT_THAT(Why(), HasSubstr("its rate changed"));
}

TEST_F(WhyClocksDifferTest, ARestoreWhereMonotonicIsBehind) {
  machine_.After(600 * kSecond);
  machine_.monotonic_ns -= 1000 * kSecond;
  EXPECT_THAT(Why(), HasSubstr("jumped by 1000.000 s"));
}

TEST_F(WhyClocksDifferTest, SamplesThatAreTooNearTellNothing) {
  machine_.After(600 * kSecond);
  const ClockSample sample = machine_.Sample();
  EXPECT_THAT(WhyClocksDiffer(early_, sample, sample), IsEmpty());
}

TEST(ClockBaselineTest, IsTakenAnewAfterAJump) {
  ClockBaseline baseline(/*uses_tsc=*/true);
  const ClockSample early = baseline.early();
  ClockSample recent = early;
  recent.ticks += 10'000'000'000'000;
  recent.monotonic_ns += kSecond;
  ClockSample now = recent;
  now.ticks += 2'500'000;
  now.monotonic_ns += kMillisecond;
  const auto why = baseline.Check(recent, now);
  ASSERT_TRUE(why.has_value());
  EXPECT_THAT(*why, HasSubstr("made anew"));
  EXPECT_EQ(baseline.early().ticks, now.ticks);
  EXPECT_EQ(baseline.AgeNs(now.monotonic_ns + 5), 5u);
  ClockSample later = now;
  later.ticks += 250'000'000;
  later.monotonic_ns += kSecond / 10;
  EXPECT_FALSE(baseline.Check(now, later).has_value()) << "once";
}

class ClocksourceTest : public ::testing::Test {
 protected:
  ~ClocksourceTest() override { std::remove(path_.c_str()); }
  void Set(const std::string& name) { std::ofstream(path_) << name << "\n"; }
  const std::string path_ = ::testing::TempDir() + "clocksource." +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(ClocksourceTest, ThatIsMarkedUnstableLaterIsReported) {
  Set("tsc");
  const ClockBaseline baseline(/*uses_tsc=*/true, path_);
  EXPECT_FALSE(baseline.CheckClocksource().has_value());
  Set("hpet");
  EXPECT_THAT(baseline.CheckClocksource().value_or(""), HasSubstr("is now hpet"));
}

// JOBSCOPE_CLOCK=tsc: somebody knows better than the kernel.
TEST_F(ClocksourceTest, ThatWasNeverTheTscIsNot) {
  Set("kvm-clock");
  const ClockBaseline baseline(/*uses_tsc=*/true, path_);
  EXPECT_FALSE(baseline.CheckClocksource().has_value());
}

class ClockWatchTest : public ::testing::Test {
 protected:
  ClockWatchTest() {
    const ClockSample early = machine_.Sample();
    const ClockSample late = machine_.After(kSecond);
    watch_ = ClockWatch(TickMap::FromSamples(early, late), late);
  }
  bool Holds() { return watch_.Holds(machine_.Sample()); }

  Machine machine_;
  ClockWatch watch_;
};

TEST_F(ClockWatchTest, TimeGoesBy) {
  for (const uint64_t ns : {uint64_t{1}, kMillisecond, 10 * kSecond, 3600 * kSecond}) {
    machine_.After(ns);
    EXPECT_TRUE(Holds()) << ns;
    EXPECT_EQ(watch_.last_good_ticks(), machine_.Sample().ticks);
  }
}

TEST_F(ClockWatchTest, AJumpIsNoticedAndStays) {
  machine_.After(kSecond);
  ASSERT_TRUE(Holds());
  const uint64_t good = machine_.Sample().ticks;
  machine_.ticks += 1e6 * machine_.ticks_per_ns;  // 1 ms
  EXPECT_FALSE(Holds());
  EXPECT_EQ(watch_.last_good_ticks(), good);
  machine_.ticks -= 1e6 * machine_.ticks_per_ns;
  EXPECT_FALSE(Holds()) << "what lies between is not known";
}

TEST_F(ClockWatchTest, ASuspendAResetAndAnotherRateAreNoticed) {
  const Machine before = machine_;
  const ClockWatch watch = watch_;
  machine_.ticks += 5e9 * machine_.ticks_per_ns;
  EXPECT_FALSE(Holds()) << "suspended, the ticks went on";

  machine_ = before;
  watch_ = watch;
  machine_.ticks = 1000;
  EXPECT_FALSE(Holds()) << "reset";

  machine_ = before;
  watch_ = watch;
  machine_.ticks_per_ns = 2.6;
  machine_.After(20 * kMillisecond);
  EXPECT_FALSE(Holds()) << "another machine";
}

TEST_F(ClockWatchTest, AThreadThatIsPreemptedBetweenItsReadingsIsNoJump) {
  ClockSample sample = machine_.After(kSecond);
  sample.ticks += static_cast<uint64_t>(20e6 * machine_.ticks_per_ns);
  sample.bracket_ticks = static_cast<uint64_t>(40e6 * machine_.ticks_per_ns);
  EXPECT_TRUE(watch_.Holds(sample));
}

}  // namespace
}  // namespace jobscope
