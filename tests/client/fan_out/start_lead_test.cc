// SPDX-License-Identifier: Apache-2.0
#include "client/fan_out/start_lead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "client/cli/sample.h"
#include "client/fan_out/step_plan.h"

namespace jobscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kMs = 1'000'000;

ArmedWorker Native(uint64_t round_trip_ns) {
  ArmedWorker worker;
  worker.address = "w:1";
  worker.streams = true;
  worker.clock.emplace();
  worker.clock->round_trip_ns = round_trip_ns;
  return worker;
}

ArmedWorker AtStep(int64_t current, double step_time_ms) {
  ArmedWorker worker = Native(0);
  worker.steps.emplace();
  worker.steps->set_begun(50);
  worker.steps->set_current(current);
  worker.steps->set_step_time_ms(step_time_ms);
  worker.steps->set_increasing(true);
  worker.steps_seen_ns = 1'000 * kMs;
  return worker;
}

TEST(StartLead, IsTwoRoundTripsButTenMilliseconds) {
  EXPECT_EQ(StartLead({Native(0), Native(0)}, absl::Milliseconds(1)),
            absl::Milliseconds(10) + absl::Microseconds(200));
  EXPECT_EQ(StartLead({Native(50 * kMs), Native(100 * kMs)}, absl::ZeroDuration()),
            absl::Milliseconds(200) + absl::Microseconds(200));
  EXPECT_LE(StartLead({Native(0)}, absl::ZeroDuration()), absl::Milliseconds(1));
  // Clocks that took long to measure tell of busy machines.
  EXPECT_EQ(StartLead({Native(0), Native(0)}, absl::Milliseconds(600)),
            absl::Milliseconds(300) + absl::Microseconds(200));
  // Stock workers receive their request at the instant itself.
  EXPECT_EQ(StartLead({Native(0), ArmedWorker()}, absl::ZeroDuration()),
            absl::Milliseconds(10) + absl::Microseconds(200));
  EXPECT_LE(StartLead({Native(90'000 * kMs)}, absl::ZeroDuration()), absl::Seconds(2));
}

TEST(Steps, TheFirstIsTheOneThatTheFarthestWorkerReachesNext) {
  // 20 ms ahead: 4 steps of 10 ms with the margin, and one; and 1 step of 100 ms, and one.
  const std::vector<ArmedWorker> workers = {AtStep(100, 10), AtStep(101, 100), ArmedWorker()};
  const auto window = ChooseSteps({4, std::nullopt}, workers, 1'020 * kMs);
  ASSERT_TRUE(window.ok());
  EXPECT_EQ((*window)->first, 105);
  EXPECT_EQ((*window)->last, 108);
}

TEST(Steps, NoneWithoutASource) {
  ArmedWorker repeats = AtStep(1, 1);
  repeats.steps->set_increasing(false);
  ArmedWorker none = Native(0);
  none.steps.emplace();
  const auto window = ChooseSteps({4, std::nullopt}, {repeats, none, ArmedWorker()}, 0);
  ASSERT_TRUE(window.ok());
  EXPECT_FALSE(window->has_value());
}

TEST(Steps, AWantedOneThatIsOverNamesTheWorker) {
  const auto over = ChooseSteps({4, 99}, {AtStep(100, 10)}, 1'000 * kMs);
  ASSERT_FALSE(over.ok());
  EXPECT_THAT(std::string(over.status().message()),
              HasSubstr("step 99 is over at worker w:1 (at step 100)"));
  const auto soon = ChooseSteps({4, 101}, {AtStep(100, 10)}, 1'050 * kMs);
  ASSERT_FALSE(soon.ok());
  EXPECT_THAT(std::string(soon.status().message()), HasSubstr("before the request can reach it"));
  const auto reachable = ChooseSteps({4, 120}, {AtStep(100, 10)}, 1'050 * kMs);
  ASSERT_TRUE(reachable.ok());
  EXPECT_EQ((*reachable)->first, 120);
}

TEST(Steps, TheFirstThatAllReachIsThatOfTheFastestWorker) {
  const std::vector<ArmedWorker> workers = {AtStep(100, 10), AtStep(90, 2), ArmedWorker()};
  EXPECT_EQ(FirstReachableByAll(workers, 1'000 * kMs), 101);
  EXPECT_EQ(FirstReachableByAll(workers, 1'010 * kMs), 103);
  EXPECT_EQ(FirstReachableByAll(workers, 1'100 * kMs), 191);
}

// As after an evaluation: the worker reports that the next step has not begun for a minute.
TEST(Steps, APauseDoesNotCountAsSteps) {
  ArmedWorker worker = AtStep(100, 10);
  worker.steps->set_age_ns(60'000 * kMs);
  EXPECT_EQ(FirstReachableStep(worker, 1'020 * kMs), 106);
}

ArmedWorker AtOrdinal(uint64_t begun, double step_time_ms, int64_t number = 0) {
  ArmedWorker worker = AtStep(number, step_time_ms);
  worker.steps->set_begun(begun);
  worker.steps->set_increasing(false);
  worker.steps->set_by_ordinal(true);
  return worker;
}

void ExpectWindow(const StepPlan& plan, const ArmedWorker& worker, int64_t first, int64_t last,
                  bool by_ordinal) {
  const v1::StepWindow window = WindowOf(plan, worker);
  EXPECT_EQ(window.first(), first);
  EXPECT_EQ(window.last(), last);
  EXPECT_EQ(window.by_ordinal(), by_ordinal);
}

// Ranks that step together, one of them just ahead: the same ordinals for both.
TEST(StepsByOrdinal, AreTheSameWhereTheCountsAre) {
  const ArmedWorker one = AtOrdinal(500, 10);
  const ArmedWorker other = AtOrdinal(501, 10);
  const auto plan = ChooseSteps({4, std::nullopt}, {one, other}, 1'020 * kMs);
  ASSERT_TRUE(plan.ok() && plan->has_value());
  EXPECT_TRUE((*plan)->by_ordinal);
  // 4 steps with the margin, and one.
  EXPECT_EQ((*plan)->first, 506);
  EXPECT_EQ((*plan)->last, 509);
  ExpectWindow(**plan, one, 506, 509, true);
  ExpectWindow(**plan, other, 506, 509, true);
}

// A worker that was started later has begun fewer: it records those of the same time.
TEST(StepsByOrdinal, AreThoseOfTheSameTimeElsewhere) {
  const ArmedWorker early = AtOrdinal(5'000, 10);
  const ArmedWorker late = AtOrdinal(40, 10);
  const ArmedWorker early_too = AtOrdinal(5'001, 10);
  const auto plan = ChooseSteps({4, std::nullopt}, {early, late, early_too}, 1'020 * kMs);
  ASSERT_TRUE(plan.ok() && plan->has_value());
  ExpectWindow(**plan, early, (*plan)->first, (*plan)->last, true);
  ExpectWindow(**plan, early_too, (*plan)->first, (*plan)->last, true);
  ExpectWindow(**plan, late, (*plan)->first - 4'960, (*plan)->last - 4'960, true);
  for (const ArmedWorker& worker : {early, late, early_too}) {
    EXPECT_GE(WindowOf(**plan, worker).first(), FirstReachableStep(worker, 1'020 * kMs));
  }
}

// Numbers lead: a worker without numbers records the steps of the same time.
TEST(StepsByOrdinal, FollowTheNumbersOfOthers) {
  const ArmedWorker numbered = AtStep(1'000, 10);
  const ArmedWorker counted = AtOrdinal(70, 10);
  const auto plan = ChooseSteps({4, std::nullopt}, {numbered, counted}, 1'000 * kMs);
  ASSERT_TRUE(plan.ok() && plan->has_value());
  EXPECT_FALSE((*plan)->by_ordinal);
  ExpectWindow(**plan, numbered, 1'001, 1'004, false);
  ExpectWindow(**plan, counted, 71, 74, true);
  const auto wanted = ChooseSteps({4, 1'050}, {counted, numbered}, 1'000 * kMs);
  ASSERT_TRUE(wanted.ok() && wanted->has_value());
  ExpectWindow(**wanted, numbered, 1'050, 1'053, false);
  ExpectWindow(**wanted, counted, 120, 123, true);
  EXPECT_EQ(FirstReachableByAll({counted, numbered}, 1'010 * kMs), 1'003);
  EXPECT_EQ(NewestOfAll({counted, numbered}), 1'000);
}

TEST(StepsByOrdinal, AWantedStepIsTheOrdinalWhereNobodyHasNumbers) {
  const std::vector<ArmedWorker> workers = {AtOrdinal(60, 10), AtOrdinal(90, 10)};
  const auto plan = ChooseSteps({2, 100}, workers, 1'000 * kMs);
  ASSERT_TRUE(plan.ok() && plan->has_value());
  ExpectWindow(**plan, workers[0], 100, 101, true);
  ExpectWindow(**plan, workers[1], 100, 101, true);
  const auto over = ChooseSteps({2, 80}, workers, 1'000 * kMs);
  ASSERT_FALSE(over.ok());
  EXPECT_THAT(std::string(over.status().message()), HasSubstr("step 80 is over at worker w:1"));
}

// Numbers come from the wire.
TEST(Steps, NoNumberOverflows) {
  for (const int64_t current : {INT64_MAX, INT64_MIN, INT64_MAX - 1}) {
    for (const double time : {0.0, -1.0, 1e-300, 1e300, std::nan(""), HUGE_VAL}) {
      ArmedWorker worker = AtStep(current, time);
      worker.steps->set_age_ns(UINT64_MAX);
      EXPECT_GE(FirstReachableStep(worker, UINT64_MAX), current);
      ASSERT_TRUE(ChooseSteps({1'000'000, std::nullopt}, {worker}, 0).ok());
      EXPECT_GE(FirstReachableByAll({worker}, UINT64_MAX), current);
      ArmedWorker counted = worker;
      counted.steps->set_increasing(false);
      counted.steps->set_by_ordinal(true);
      counted.steps->set_begun(UINT64_MAX);
      for (const auto& crowd : {std::vector<ArmedWorker>{counted}, {worker, counted}}) {
        const auto plan = ChooseSteps({1'000'000, std::nullopt}, crowd, 0);
        ASSERT_TRUE(plan.ok());
        EXPECT_GE(WindowOf(**plan, counted).first(), 1);
        EXPECT_GE(WindowOf(**plan, counted).last(), WindowOf(**plan, counted).first());
      }
    }
  }
}

// Whatever the rates, phases, latencies and ages: no worker has begun the chosen step by the
// instant, although steps vary by a fifth; and it is not much later than it has to be.
TEST(Steps, TheChosenOneIsReachableByAll) {
  std::mt19937_64 random(7);
  const auto uniform = [&random](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int run = 0; run < 2'000; ++run) {
    const double at_ms = 1'000 + uniform(1, 300);
    const auto at_ns = static_cast<uint64_t>(at_ms * 1e6);
    std::vector<ArmedWorker> workers;
    std::vector<int64_t> truly_at_instant;
    int64_t newest = INT64_MIN;
    for (int i = 0; i < 8; ++i) {
      const double told_ms = std::exp(uniform(std::log(0.5), std::log(2'000)));
      const double least_ms = told_ms * uniform(0.8, 1.2);  // what they really take from now on
      const double age_ms = uniform(0, least_ms);
      const double way_ms = uniform(0, 100);
      const auto current = static_cast<int64_t>(uniform(-5, 1e6));
      ArmedWorker worker = AtStep(current, told_ms);
      worker.steps->set_age_ns(static_cast<uint64_t>(age_ms * 1e6));
      worker.clock->round_trip_ns = static_cast<uint64_t>(2 * way_ms * 1e6);
      const double seen_ms = 1'000 - uniform(0, 200);  // Progress comes each 200 ms
      worker.steps_seen_ns = static_cast<uint64_t>(seen_ms * 1e6);
      workers.push_back(worker);
      const double since_ms = at_ms - (seen_ms - way_ms - age_ms);
      truly_at_instant.push_back(current + static_cast<int64_t>(std::floor(since_ms / least_ms)));
      newest = std::max(newest, FirstReachableStep(worker, at_ns));
    }
    const auto window = ChooseSteps({10, std::nullopt}, workers, at_ns);
    ASSERT_TRUE(window.ok() && window->has_value());
    for (const int64_t truly : truly_at_instant) EXPECT_GT((*window)->first, truly);
    EXPECT_EQ((*window)->first, newest);
    EXPECT_EQ((*window)->last, newest + 9);
  }
}

TEST(Lookback, IsWhatSomebodyHas) {
  ArmedWorker short_reach = Native(0);
  short_reach.lookback_ns = 3;
  ArmedWorker long_reach = Native(0);
  long_reach.lookback_ns = 5;
  EXPECT_EQ(GrantedLookback(9, {short_reach, long_reach}), 5u);
  EXPECT_EQ(GrantedLookback(4, {short_reach, long_reach}), 4u);
  EXPECT_EQ(GrantedLookback(4, {ArmedWorker()}), 0u);
}

std::vector<Endpoint> Hosts(const std::vector<std::string>& hosts) {
  std::vector<Endpoint> endpoints;
  for (const std::string& host : hosts) {
    endpoints.emplace_back();
    endpoints.back().host = host;
  }
  return endpoints;
}

TEST(Sample, IsSpreadOverHosts) {
  const std::vector<Endpoint> eight = Hosts({"a", "a", "b", "b", "c", "c", "d", "d"});
  EXPECT_THAT(SpreadSample(eight, 4), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(SpreadSample(eight, 2), ElementsAre(0, 4));
  EXPECT_THAT(SpreadSample(eight, 6), ElementsAre(0, 1, 2, 4, 5, 6));
  EXPECT_THAT(SpreadSample(eight, 99), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(SpreadSample(Hosts({"a", "b", "a", "a"}), 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(SpreadSample({}, 3), IsEmpty());
}

TEST(Sample, NoHostGivesASecondBeforeEachGaveOne) {
  std::mt19937 random(3);
  for (int run = 0; run < 200; ++run) {
    std::vector<std::string> names;
    for (int i = 0; i < 40; ++i) names.push_back(std::string(1, "abcdefgh"[random() % 8]));
    const std::vector<Endpoint> endpoints = Hosts(names);
    const size_t count = random() % 40 + 1;
    const std::vector<size_t> sample = SpreadSample(endpoints, count);
    ASSERT_EQ(sample.size(), count);
    EXPECT_EQ(sample, SpreadSample(endpoints, count));
    std::map<std::string, size_t> taken, all;
    for (const std::string& name : names) ++all[name];
    for (const size_t index : sample) ++taken[names[index]];
    for (const auto& [name, number] : all) {
      for (const auto& [other, others] : taken) {
        EXPECT_TRUE(taken[name] == number || taken[name] + 1 >= others) << name << other;
      }
    }
  }
}

}  // namespace
}  // namespace jobscope
