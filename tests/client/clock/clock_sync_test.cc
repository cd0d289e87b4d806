// SPDX-License-Identifier: Apache-2.0
#include "client/clock/clock_sync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

namespace jobscope {
namespace {

using ::testing::Le;

constexpr int64_t kSecond = 1'000'000'000;

// A worker whose clock is off and drifts, behind a path that is longer one way than the other, has
// jitter, and sometimes a queue.
class SimulatedPath {
 public:
  explicit SimulatedPath(uint32_t seed) : random_(seed) {
    now_ns_ = Between(kSecond, 1'000'000 * kSecond);
    offset_ns_ = Between(-7 * kSecond, 7 * kSecond);
    if (offset_ns_ < 0 && now_ns_ < -2 * offset_ns_) now_ns_ += 14 * kSecond;
    drift_ppm_ = static_cast<double>(Between(-50, 50));
    begin_ns_ = now_ns_;
    there_ns_ = Between(5'000, 60'000'000);
    back_ns_ = Between(5'000, 60'000'000);
    jitter_ns_ = Between(1'000, 2'000'000);
    realtime_ns_ = Between(-3600, 3600) * kSecond;
  }

  int64_t now_ns() const { return now_ns_; }
  void Pass(int64_t ns) { now_ns_ += ns; }
  // Of the worker's clock, now.
  int64_t TrueOffset() const {
    return offset_ns_ +
           static_cast<int64_t>(static_cast<double>(now_ns_ - begin_ns_) * drift_ppm_ * 1e-6);
  }
  int64_t TrueRealtimeOffset() const { return TrueOffset() + realtime_ns_; }

  ClockExchange Exchange() {
    ClockExchange exchange;
    exchange.sent_ns = static_cast<uint64_t>(now_ns_);
    Pass(there_ns_ + Jitter());
    exchange.worker_received_ns = Worker();
    Pass(Between(2'000, 300'000));
    exchange.worker_sent_ns = Worker();
    exchange.worker_realtime_ns =
        static_cast<int64_t>(exchange.worker_sent_ns) + kEpoch + realtime_ns_;
    Pass(back_ns_ + Jitter());
    exchange.received_ns = static_cast<uint64_t>(now_ns_);
    exchange.realtime_ns = now_ns_ + kEpoch;
    return exchange;
  }

 private:
  static constexpr int64_t kEpoch = 1'700'000'000 * kSecond;

  int64_t Between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  int64_t Jitter() {
    const bool queue = Between(0, 9) == 0;
    const double mean = static_cast<double>(queue ? 20 * jitter_ns_ : jitter_ns_);
    return static_cast<int64_t>(std::exponential_distribution<double>(1 / mean)(random_));
  }
  uint64_t Worker() const { return static_cast<uint64_t>(now_ns_ + TrueOffset()); }

  std::mt19937 random_;
  int64_t now_ns_ = 0;
  int64_t begin_ns_ = 0;
  int64_t offset_ns_ = 0;
  int64_t realtime_ns_ = 0;
  double drift_ppm_ = 0;
  int64_t there_ns_ = 0;
  int64_t back_ns_ = 0;
  int64_t jitter_ns_ = 0;
};

TEST(ClockSyncTest, TheUncertaintyCoversTheTrueErrorOfAThousandRuns) {
  constexpr int kRuns = 1000;
  int covered = 0;
  int covered_later = 0;
  int covered_realtime = 0;
  std::vector<double> width_by_round_trip;
  for (int run = 0; run < kRuns; ++run) {
    SimulatedPath path(static_cast<uint32_t>(run));
    ClockSync sync;
    uint64_t smallest = UINT64_MAX;
    int exchanges = 0;
    while (!sync.Enough()) {
      ASSERT_THAT(++exchanges, Le(ClockSync::kMaxExchanges));
      const ClockExchange exchange = path.Exchange();
      smallest = std::min(smallest, exchange.received_ns - exchange.sent_ns -
                                        (exchange.worker_sent_ns - exchange.worker_received_ns));
      sync.Add(exchange);
    }
    const auto estimate = sync.estimate();
    ASSERT_TRUE(estimate.has_value());
    EXPECT_EQ(estimate->round_trip_ns, smallest);
    EXPECT_EQ(estimate->measured_ns, static_cast<uint64_t>(path.now_ns()));
    const auto error = [&path, &estimate] {
      return static_cast<uint64_t>(std::abs(estimate->offset_ns - path.TrueOffset()));
    };
    covered += error() <= estimate->uncertainty_ns ? 1 : 0;
    const int64_t realtime = estimate->realtime_offset_ns - path.TrueRealtimeOffset();
    covered_realtime +=
        static_cast<uint64_t>(std::abs(realtime)) <= estimate->uncertainty_ns ? 1 : 0;
    width_by_round_trip.push_back(2.0 * static_cast<double>(estimate->uncertainty_ns) /
                                  static_cast<double>(smallest));
    path.Pass(60 * kSecond);
    covered_later +=
        error() <= UncertaintyAt(*estimate, static_cast<uint64_t>(path.now_ns())) ? 1 : 0;
  }
  EXPECT_GE(covered, kRuns * 99 / 100);
  EXPECT_GE(covered_realtime, kRuns * 99 / 100);
  EXPECT_GE(covered_later, kRuns * 99 / 100);
  // And it is of use: not wider than the smallest round trip.
  std::sort(width_by_round_trip.begin(), width_by_round_trip.end());
  EXPECT_LE(width_by_round_trip[kRuns / 2], 1.0);
}

ClockExchange Loopback(uint64_t sent_ns, uint64_t round_trip_ns) {
  ClockExchange exchange;
  exchange.sent_ns = sent_ns;
  exchange.worker_received_ns = sent_ns + round_trip_ns / 2;
  exchange.worker_sent_ns = exchange.worker_received_ns;
  exchange.received_ns = sent_ns + round_trip_ns;
  return exchange;
}

TEST(ClockSyncTest, AShortPathNeedsFewPings) {
  ClockSync sync;
  int pings = 0;
  for (; !sync.Enough(); ++pings) sync.Add(Loopback(1000 + 200'000 * uint64_t(pings), 100'000));
  EXPECT_EQ(pings, 3);
  EXPECT_EQ(sync.estimate()->offset_ns, 0);
  EXPECT_LE(sync.estimate()->uncertainty_ns, 50'000u);
}

TEST(ClockSyncTest, ALongEvenPathEndsEarlyAndAShakyOneAtTheLimit) {
  ClockSync even;
  int pings = 0;
  for (; !even.Enough(); ++pings) even.Add(Loopback(uint64_t(pings) * 50'000'000, 50'000'000));
  EXPECT_EQ(pings, 4);
  ClockSync shaky;
  uint64_t round_trip = 200'000'000;
  for (pings = 0; !shaky.Enough(); ++pings) {
    shaky.Add(Loopback(uint64_t(pings) * 300'000'000, round_trip));
    round_trip = round_trip * 4 / 5;
  }
  EXPECT_EQ(pings, ClockSync::kMaxExchanges);
}

TEST(ClockSyncTest, ExchangesThatCannotBeAreIgnored) {
  ClockSync sync;
  EXPECT_FALSE(sync.estimate().has_value());
  ClockExchange slow_worker = Loopback(1'000'000, 1000);
  slow_worker.worker_sent_ns = slow_worker.worker_received_ns + 2000;
  ClockExchange backwards = Loopback(1'000'000, 1000);
  backwards.received_ns = 999'999;
  ClockExchange worker_backwards = Loopback(1'000'000, 1000);
  worker_backwards.worker_sent_ns = worker_backwards.worker_received_ns - 1;
  ClockExchange absurd = Loopback(1'000'000, 1000);
  absurd.worker_received_ns = absurd.worker_sent_ns = UINT64_MAX;
  for (const ClockExchange& exchange : {slow_worker, backwards, worker_backwards, absurd}) {
    sync.Add(exchange);
    EXPECT_FALSE(sync.estimate().has_value());
  }
  // And do not keep a burst from ending by its own limit of pings that were sent.
  EXPECT_FALSE(sync.Enough());
}

TEST(ClockSyncTest, AnExchangeThatContradictsTheOthersCountsAlone) {
  ClockSync sync;
  sync.Add(Loopback(1'000'000, 100'000));
  ClockExchange after_a_sleep = Loopback(2'000'000, 300'000);
  after_a_sleep.worker_received_ns += 5 * kSecond;
  after_a_sleep.worker_sent_ns += 5 * kSecond;
  sync.Add(after_a_sleep);
  EXPECT_EQ(sync.estimate()->offset_ns, 5 * kSecond);
  EXPECT_EQ(sync.estimate()->round_trip_ns, 300'000u);
}

TEST(ClockSyncTest, TwoLopsidedPathsNarrowEachOther) {
  // 1 ms there and 0 back, then 0 there and 1 ms back: only one offset fits both.
  ClockSync sync;
  ClockExchange first = Loopback(1'000'000, 1'000'000);
  first.worker_received_ns = first.worker_sent_ns = first.received_ns;
  sync.Add(first);
  EXPECT_EQ(sync.estimate()->uncertainty_ns, 500'000u);
  ClockExchange second = Loopback(2'000'000, 1'000'000);
  second.worker_received_ns = second.worker_sent_ns = second.sent_ns;
  sync.Add(second);
  EXPECT_LE(std::abs(sync.estimate()->offset_ns), 101);
  EXPECT_LE(sync.estimate()->uncertainty_ns, 101u);
}

TEST(ClockSyncTest, UncertaintyGrowsByAHundredPpm) {
  ClockEstimate estimate;
  estimate.uncertainty_ns = 1000;
  estimate.measured_ns = 5 * kSecond;
  EXPECT_EQ(UncertaintyAt(estimate, 15 * kSecond), 1000u + 1'000'000 + 1);
  EXPECT_EQ(UncertaintyAt(estimate, 4 * kSecond), 1000u + 100'000 + 1);
}

}  // namespace
}  // namespace jobscope
