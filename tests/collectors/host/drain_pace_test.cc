// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/drain_pace.h"

#include <gtest/gtest.h>

namespace jobscope::host {
namespace {

constexpr double kTicksPerSecond = 1e9;
constexpr uint64_t kRingRecords = 32'768;
constexpr uint64_t kMs = 1'000'000;

class DrainPaceTest : public testing::Test {
 protected:
  DrainPaceTest() { pace_.Begin(now_, kTicksPerSecond, kRingRecords); }

  // Drains when it is due, or `later_ms` after.
  absl::Duration Next(const DrainFindings& found, uint64_t later_ms = 0) {
    now_ += static_cast<uint64_t>(absl::ToInt64Nanoseconds(pause_)) + later_ms * kMs;
    return pause_ = pace_.Next(now_, found);
  }
  // Drains until `ms` have passed.
  absl::Duration Pass(uint64_t ms, const DrainFindings& found) {
    const uint64_t until = now_ + ms * kMs;
    while (now_ < until) (void)Next(found);
    return pause_;
  }
  static DrainFindings Records(uint64_t records) {
    DrainFindings found;
    found.busiest_records = records;
    return found;
  }

  DrainPace pace_;
  uint64_t now_ = 1'000'000'000;
  absl::Duration pause_;
};

TEST_F(DrainPaceTest, GrowsSlowlyAndStaysShortWhileRecordsCame) {
  EXPECT_EQ(Next(Records(1), 100), absl::Milliseconds(2));
  EXPECT_EQ(Next({}), absl::Milliseconds(4));
  EXPECT_EQ(Next({}), absl::Milliseconds(8));
  EXPECT_EQ(Pass(1000, {}), absl::Milliseconds(20));
  EXPECT_EQ(Pass(3000, {}), absl::Milliseconds(100));
}

TEST_F(DrainPaceTest, NoRingIsMoreThanAQuarterFullByTheFastestRateOfLate) {
  // 1 M/s: a quarter of the ring, 8,192 records, in 8.2 ms.
  const absl::Duration quarter = absl::Nanoseconds(8'192'000);
  EXPECT_EQ(Next(Records(10'000), 10), absl::Milliseconds(2));
  EXPECT_EQ(Pass(100, {}), quarter);
  EXPECT_EQ(Pass(1000, {}), quarter);
}

// A step may wait for its device longer than any burst takes.
TEST_F(DrainPaceTest, AFastRateIsRememberedThroughTheSilenceOfAStep) {
  (void)Pass(5000, {});
  for (int step = 0; step < 10; ++step) {
    const uint64_t until = now_ + 50 * kMs;
    while (now_ < until) (void)Next(Records(static_cast<uint64_t>(pause_ / absl::Microseconds(1))));
    EXPECT_EQ(Pass(5000, {}), absl::Nanoseconds(8'192'000)) << step;
  }
  EXPECT_EQ(Pass(31'000, {}), absl::Milliseconds(100)) << "and forgotten after a while";
}

// One that does not is no danger: a quiet worker is woken rarely.
TEST_F(DrainPaceTest, ASlowerRateIsForgottenSoon) {
  EXPECT_EQ(Next(Records(3'000), 10), absl::Milliseconds(2));
  EXPECT_EQ(Pass(3000, {}), absl::Milliseconds(100));
}

TEST_F(DrainPaceTest, RingsOfEndedThreadsComeBackInTime) {
  (void)Pass(1000, {});
  DrainFindings found;
  found.ended_threads = 32;
  // 32 rings in 20 ms, or 16 in 10.
  EXPECT_EQ(Next(found), absl::Milliseconds(10));
}

TEST_F(DrainPaceTest, GoesOnAtOnceWhenItRanOutOfTime) {
  DrainFindings found = Records(100'000);
  found.out_of_time = true;
  EXPECT_EQ(Next(found, 20), absl::ZeroDuration());
  EXPECT_EQ(Next(found, 20), absl::ZeroDuration());
  EXPECT_GT(Next(Records(1), 20), absl::ZeroDuration());
}

TEST_F(DrainPaceTest, LooksSeldomWhileTheStoreIsFull) {
  DrainFindings found = Records(100'000);
  found.store_full = true;
  EXPECT_EQ(Next(found, 10), absl::Milliseconds(2));
  EXPECT_EQ(Pass(1000, found), absl::Milliseconds(100));
  // Room again: the rate counts at once.
  EXPECT_LT(Next(Records(100'000)), absl::Milliseconds(20));
}

}  // namespace
}  // namespace jobscope::host
