// SPDX-License-Identifier: Apache-2.0
//
// The common start: clocks that are off, links that are slow, steps, lookback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "client/fan_out/fan_out.h"
#include "client/fan_out/step_plan.h"
#include "common/clock/clock_id.h"
#include "tests/again_if_busy.h"
#include "tests/client/fan_out/fan_out_fixture.h"
#include "tests/client/fan_out/scripted_worker.h"

namespace jobscope {
namespace {

using grpc::Status;
using grpc::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FanOutStartTest : public FanOutTest {
 protected:
  static Script WithSteps(int64_t newest, absl::Duration time) {
    Script script;
    script.steps.emplace();
    script.steps->newest = newest;
    script.steps->time = time;
    return script;
  }
  // Answers the third attempt only.
  static Script Late(Script script) {
    script.describe = [](int attempt) { return attempt < 2 ? Refused(attempt) : Status::OK; };
    return script;
  }
  // Each records `count` whole steps, and had not begun the first when it received the start.
  void ExpectTheSameSteps(const std::vector<Script>& scripts, uint64_t count) {
    ASSERT_TRUE(fan_out_->facts().steps.has_value());
    const StepPlan window = *fan_out_->facts().steps;
    EXPECT_EQ(window.last - window.first + 1, static_cast<int64_t>(count));
    for (size_t i = 0; i < scripts.size(); ++i) {
      ASSERT_EQ(starts(i).size(), 1u);
      ASSERT_TRUE(starts(i)[0].steps.has_value()) << i;
      EXPECT_EQ(starts(i)[0].steps->first(), window.first);
      EXPECT_EQ(starts(i)[0].steps->last(), window.last);
      EXPECT_LT(scripts[i].steps->At(SteadyTime(begun_at(i))), window.first) << i;
    }
  }
  uint64_t begun_at(size_t index) { return begun(index); }
  bool RecordsFrom(size_t index, int64_t step) {
    const std::vector<StartCall> calls = starts(index);
    return calls.size() == 1 && calls[0].steps.has_value() && calls[0].steps->first() == step;
  }
};

TEST_F(FanOutStartTest, ClocksAndLatenciesDoNotMoveTheStart) {
  options_.times.gather = absl::Seconds(5);  // the far one's clock takes 100 ms
  std::vector<Script> scripts(8);
  scripts[1].clock_offset = absl::Seconds(7);
  scripts[2].clock_offset = -absl::Hours(1'000'000);
  scripts[3].latency = absl::Milliseconds(50);
  scripts[4].clock_error = absl::Microseconds(200);
  const std::vector<WorkerResult> results = RunInTime([&] { return scripts; });
  uint64_t first = UINT64_MAX;
  uint64_t last = 0;
  for (size_t i = 0; i < scripts.size(); ++i) {
    EXPECT_STREQ(Name(results[i].outcome.kind), "ok");
    first = std::min(first, begun(i));
    last = std::max(last, begun(i));
    ASSERT_TRUE(results[i].account.clock_offset_ns.has_value());
    EXPECT_NEAR(static_cast<double>(*results[i].account.clock_offset_ns),
                static_cast<double>(absl::ToInt64Nanoseconds(scripts[i].clock_offset)),
                static_cast<double>(*results[i].account.clock_uncertainty_ns));
  }
  // In truth, and as the facts say; nobody was late.
  EXPECT_LT(last - first, 2'000'000u);
  EXPECT_LT(*fan_out_->facts().spread_ns, 2'000'000u);
  EXPECT_GE(*fan_out_->facts().clock_uncertainty_ns, 200'000u);
  for (size_t i = 0; i < scripts.size(); ++i) {
    const absl::MutexLock lock(&logs_[i]->mutex);
    EXPECT_LE(logs_[i]->begun_ns[0] - logs_[i]->planned_ns[0], 1'000'000u) << "late: " << i;
  }
}

TEST_F(FanOutStartTest, OurOwnClockIsNotMeasured) {
  Script own;
  own.clock_id = ClockId();
  own.arm_round_trip = absl::Milliseconds(80);
  Script liar = own;  // says so, and is another
  liar.clock_offset = absl::Seconds(7);
  Script silent = own;
  silent.arm_round_trip.reset();
  const std::vector<WorkerResult> results = RunInTime([&] {
    return std::vector<Script>{own, own, liar, silent};
  });
  for (const WorkerResult& result : results) EXPECT_STREQ(Name(result.outcome.kind), "ok");
  EXPECT_EQ(syncs(0), 0);
  EXPECT_EQ(syncs(1), 0);
  EXPECT_EQ(syncs(2), 1);
  EXPECT_EQ(syncs(3), 1);
  EXPECT_EQ(starts(0)[0].clock->offset_ns, 0);
  EXPECT_LE(*results[0].account.clock_uncertainty_ns, 100'000u);
  EXPECT_EQ(starts(2)[0].clock->offset_ns, 7'000'000'000);
  EXPECT_LT(*fan_out_->facts().spread_ns, 2'000'000u);
}

TEST_F(FanOutStartTest, OfWorkersOfOneClockThreeAreMeasured) {
  Script there;
  there.clock_id = "the clock of another host";
  there.clock_offset = absl::Seconds(100);
  there.arm_round_trip = absl::Milliseconds(80);
  Script elsewhere = there;
  elsewhere.clock_id = "one more";
  elsewhere.clock_offset = absl::Seconds(200);
  std::vector<Script> scripts(8, there);
  scripts.push_back(elsewhere);
  const std::vector<WorkerResult> results = RunInTime([&] { return scripts; });
  int measured = 0;
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_STREQ(Name(results[i].outcome.kind), "ok");
    measured += syncs(i);
    // Those that were not have what those that were found out.
    EXPECT_NEAR(static_cast<double>(starts(i)[0].clock->offset_ns), 100e9, 2e3);
    EXPECT_LE(*results[i].account.clock_uncertainty_ns, 100'000u);
  }
  EXPECT_EQ(measured, 3);
  EXPECT_EQ(syncs(8), 1);
  EXPECT_LT(*fan_out_->facts().spread_ns, 2'000'000u);
}

TEST_F(FanOutStartTest, AClockThatCannotBeMeasuredCostsTheCommonStartOfItsWorkerAlone) {
  Script fails;
  fails.sync_fails = Status(StatusCode::UNAVAILABLE, "Socket closed");
  const std::vector<WorkerResult> results = Run({Script(), fails, Script()});
  for (const WorkerResult& result : results) EXPECT_STREQ(Name(result.outcome.kind), "ok");
  EXPECT_FALSE(starts(1)[0].clock.has_value());
  EXPECT_EQ(results[1].account.aligned, false);
  EXPECT_FALSE(results[1].account.clock_offset_ns.has_value());
  EXPECT_THAT(results[1].account.warnings, ElementsAre(HasSubstr("could not be measured")));
  EXPECT_EQ(starts(0)[0].start_monotonic_ns, starts(2)[0].start_monotonic_ns);
}

TEST_F(FanOutStartTest, WherePingsFailTheClockIsThatOfArming) {
  Script fails;
  fails.clock_offset = absl::Seconds(7);
  fails.arm_round_trip = absl::Milliseconds(1);
  fails.sync_fails = Status(StatusCode::UNAVAILABLE, "Socket closed");
  const std::vector<WorkerResult> results = Run({Script(), fails});
  ASSERT_TRUE(starts(1)[0].clock.has_value());
  EXPECT_NEAR(static_cast<double>(starts(1)[0].clock->offset_ns), 7e9, 500e3);
  EXPECT_NE(results[1].account.aligned, false);
  EXPECT_TRUE(results[1].account.clock_offset_ns.has_value());
  EXPECT_THAT(results[1].account.warnings, IsEmpty());
}

TEST_F(FanOutStartTest, ASilentClockHoldsTheOthersNoLongerThanTheGatherTime) {
  options_.times.gather = absl::Milliseconds(100);
  Script hangs;
  hangs.sync_hangs = true;
  const std::vector<WorkerResult> results = Run({Script(), hangs});
  EXPECT_EQ(hangs_->by_limit, 0);
  EXPECT_STREQ(Name(results[0].outcome.kind), "ok");
  // The client abandons the clock, and the worker still records.
  EXPECT_STREQ(Name(results[1].outcome.kind), "ok");
}

TEST_F(FanOutStartTest, TheZeroLiesAsFarBackAsSomebodyReaches) {
  options_.lookback = absl::Seconds(10);
  std::vector<Script> scripts(3);
  scripts[0].lookback = absl::Seconds(2);
  scripts[1].lookback = absl::Seconds(4);
  Run(scripts);
  for (size_t i = 0; i < 3; ++i) {
    const StartCall call = starts(i)[0];
    EXPECT_EQ(call.start_monotonic_ns - call.zero_monotonic_ns, 4'000'000'000u);
    EXPECT_EQ(call.start_unix_ns - call.zero_unix_ns, 4'000'000'000);
    EXPECT_EQ(call.zero_monotonic_ns, starts(0)[0].zero_monotonic_ns);
    EXPECT_EQ(arms(i)[0].lookback, absl::Seconds(10));
  }
  EXPECT_EQ(fan_out_->facts().lookback_ns, 4'000'000'000u);
}

TEST_F(FanOutStartTest, MoreThanWasAskedForIsNotGranted) {
  options_.lookback = absl::Seconds(1);
  Script script;
  script.lookback = absl::Seconds(4);
  Run({script});
  EXPECT_EQ(fan_out_->facts().lookback_ns, 1'000'000'000u);
}

TEST_F(FanOutStartTest, ADumpRecordsNothingNewAndIsRefusedWhereThereIsNothing) {
  options_.lookback = absl::Seconds(10);
  options_.duration = absl::ZeroDuration();
  Script reaches;
  reaches.lookback = absl::Seconds(10);
  Script stock;
  stock.stock = true;
  const std::vector<WorkerResult> results = Run({reaches, stock});
  EXPECT_STREQ(Name(results[0].outcome.kind), "ok");
  EXPECT_EQ(starts(0)[0].duration, absl::ZeroDuration());
  EXPECT_STREQ(Name(results[1].outcome.kind), "refused");
  EXPECT_THAT(results[1].outcome.reason, HasSubstr("--duration_ms=0"));
}

TEST_F(FanOutStartTest, AllRecordTheSameSteps) {
  options_.steps = StepsWanted{5, std::nullopt};
  options_.max_duration = absl::Seconds(10);
  std::vector<Script> scripts;
  const std::vector<WorkerResult> results = RunInTime([&scripts] {
    scripts = {WithSteps(100, absl::Milliseconds(10)), WithSteps(103, absl::Milliseconds(11)),
               WithSteps(98, absl::Milliseconds(30))};
    scripts[1].latency = absl::Milliseconds(40);
    return scripts;
  });
  for (const WorkerResult& result : results) {
    EXPECT_STREQ(Name(result.outcome.kind), "ok");
    EXPECT_THAT(result.account.warnings, IsEmpty());
  }
  ExpectTheSameSteps(scripts, 5);
  EXPECT_EQ(starts(0)[0].duration, absl::Seconds(10)) << "the bound, not --duration_ms";
  EXPECT_TRUE(arms(0)[0].by_steps);
}

TEST_F(FanOutStartTest, OneWorkerGetsItsStepsAheadOfTime) {
  options_.steps = StepsWanted{5, std::nullopt};
  options_.max_duration = absl::Seconds(10);
  std::vector<Script> scripts;
  uint64_t before_ns = 0;
  RunInTime([&] {
    scripts = {WithSteps(100, absl::Milliseconds(10))};
    before_ns = MonotonicNow();
    return scripts;
  });
  ExpectTheSameSteps(scripts, 5);
  // A recording for a time gets its start 1 ms ahead, and may begin late; a step would be missed.
  EXPECT_GE(starts(0)[0].start_monotonic_ns, before_ns + 20'000'000);
}

TEST_F(FanOutStartTest, WorkersWithoutStepsFallBackToTime) {
  options_.steps = StepsWanted{5, std::nullopt};
  options_.max_duration = absl::Seconds(10);
  Script repeats = WithSteps(7, absl::Milliseconds(10));
  repeats.steps->increasing = false;
  Script stock;
  stock.stock = true;
  const std::vector<WorkerResult> results =
      Run({WithSteps(100, absl::Milliseconds(10)), Script(), repeats, stock});
  EXPECT_TRUE(starts(0)[0].steps.has_value());
  for (const size_t i : {1, 2, 3}) {
    EXPECT_STREQ(Name(results[i].outcome.kind), "ok");
    EXPECT_FALSE(starts(i)[0].steps.has_value());
    EXPECT_EQ(starts(i)[0].duration, options_.duration);
    EXPECT_EQ(starts(i)[0].start_unix_ns, starts(0)[0].start_unix_ns);
    EXPECT_THAT(results[i].account.warnings, ElementsAre(HasSubstr("recorded for --duration_ms")));
  }
  EXPECT_THAT(results[1].account.warnings[0], HasSubstr("had begun no step"));
  EXPECT_THAT(results[2].account.warnings[0], HasSubstr("do not rise"));
}

// As of a program that always says 0, beside others that count.
TEST_F(FanOutStartTest, WorkersWhoseNumbersDoNotRiseGetOrdinals) {
  options_.steps = StepsWanted{5, std::nullopt};
  options_.max_duration = absl::Seconds(10);
  Script repeats = WithSteps(0, absl::Milliseconds(10));
  repeats.steps->increasing = false;
  repeats.steps->by_ordinal = true;
  const std::vector<WorkerResult> results =
      Run({WithSteps(100, absl::Milliseconds(10)), repeats, repeats});
  const StepPlan plan = *fan_out_->facts().steps;
  EXPECT_FALSE(plan.by_ordinal);
  EXPECT_EQ(fan_out_->facts().workers_by_ordinal, 2U);
  EXPECT_FALSE(starts(0)[0].steps->by_ordinal());
  EXPECT_EQ(starts(0)[0].steps->first(), plan.first);
  EXPECT_THAT(results[0].account.warnings, IsEmpty());
  for (const size_t i : {1, 2}) {
    ASSERT_TRUE(starts(i)[0].steps.has_value());
    const v1::StepWindow window = *starts(i)[0].steps;
    EXPECT_TRUE(window.by_ordinal());
    EXPECT_EQ(window.last() - window.first(), 4);
    // The first step of the script is 100, and its first ordinal is 1.
    EXPECT_NEAR(static_cast<double>(window.first()), static_cast<double>(plan.first - 99), 1);
    EXPECT_EQ(starts(i)[0].duration, absl::Seconds(10));
    EXPECT_THAT(results[i].account.warnings, ElementsAre(HasSubstr("by count")));
  }
  EXPECT_EQ(starts(1)[0].steps->first(), starts(2)[0].steps->first());
}

TEST_F(FanOutStartTest, AStepThatIsOverIsAnError) {
  options_.steps = StepsWanted{5, 102};
  const std::vector<WorkerResult> results =
      Run({WithSteps(10, absl::Minutes(10)), WithSteps(5'000, absl::Minutes(10))});
  for (const WorkerResult& result : results) {
    EXPECT_STREQ(Name(result.outcome.kind), "failed");
    EXPECT_STREQ(Name(result.outcome.phase), "arm");
    EXPECT_THAT(result.outcome.reason, HasSubstr("step 102 is over at worker w1:1 (at step 5000"));
  }
  EXPECT_TRUE(starts(0).empty());
}

TEST_F(FanOutStartTest, AStepThatIsFarAheadIsWaitedForArmed) {
  options_.times.near = absl::Seconds(4);
  options_.steps = StepsWanted{3, 160};
  options_.max_duration = absl::Minutes(1);
  const std::vector<Script> scripts = {WithSteps(100, absl::Milliseconds(100)),
                                       WithSteps(90, absl::Milliseconds(100))};
  const absl::Time before = absl::Now();
  const std::vector<WorkerResult> results = Run(scripts);
  for (const WorkerResult& result : results) EXPECT_STREQ(Name(result.outcome.kind), "ok");
  ExpectTheSameSteps(scripts, 3);
  EXPECT_EQ(fan_out_->facts().steps->first, 160);
  // The step begins 6 s from the beginning; they received the start in the last 4 s before.
  EXPECT_GT(*fan_out_->facts().started, before + absl::Seconds(1));
}

// A worker accepts a start at a long step only before the step that precedes it begins.
TEST_F(FanOutStartTest, LongStepsAreReachedAfterAWaitToo) {
  options_.steps = StepsWanted{1, 4};
  options_.max_duration = absl::Minutes(1);
  EXPECT_TRUE(AgainIfBusy([&] {
    Script script = WithSteps(0, absl::Seconds(3));
    script.capture = [](int) { return Status(StatusCode::INTERNAL, "nobody waits for the step"); };
    Run({script, script});
    return RecordsFrom(0, 4) && RecordsFrom(1, 4);
  }));
}

// As step 0 of a job that begins after its workers were armed.
TEST_F(FanOutStartTest, AStepThatIsOverWhenTheJobBeginsIsReplacedByTheNextOnes) {
  options_.steps = StepsWanted{3, 0};
  options_.max_duration = absl::Minutes(1);
  Script script = WithSteps(0, absl::Minutes(10));
  script.steps->base += absl::Milliseconds(500);
  script.capture = [](int) { return Status(StatusCode::INTERNAL, "nobody waits for the step"); };
  const std::vector<WorkerResult> results = Run({script});
  EXPECT_TRUE(RecordsFrom(0, 2)) << results[0].outcome.reason;
  EXPECT_EQ(fan_out_->facts().steps->last, 4);
  EXPECT_THAT(results[0].account.warnings, ElementsAre(HasSubstr("step 0 could not be reached")));
}

// As of a job that still imports or compiles. Its ranks do not begin their first step together.
TEST_F(FanOutStartTest, AStepIsWaitedForArmedBeforeAnyHasBegun) {
  options_.times.near = absl::Seconds(10);
  options_.steps = StepsWanted{3, 50};
  options_.max_duration = absl::Minutes(1);
  EXPECT_TRUE(AgainIfBusy([&] {
    Script first = WithSteps(0, absl::Milliseconds(100));
    first.steps->base += absl::Milliseconds(500);
    Script second = first;
    second.steps->base += absl::Milliseconds(150);
    Run({first, second});
    return RecordsFrom(0, 50) && RecordsFrom(1, 50);
  }));
}

TEST_F(FanOutStartTest, WorkersThatBeginNoStepRecordForTheDurationInTheEnd) {
  options_.steps = StepsWanted{3, 10};
  options_.max_duration = absl::Milliseconds(300);
  const absl::Time before = absl::Now();
  const std::vector<WorkerResult> results = Run({Script()});
  EXPECT_STREQ(Name(results[0].outcome.kind), "ok");
  EXPECT_FALSE(starts(0)[0].steps.has_value());
  EXPECT_GE(*fan_out_->facts().started, before + absl::Milliseconds(300));
  EXPECT_THAT(results[0].account.warnings, ElementsAre(HasSubstr("had begun no step")));
}

TEST_F(FanOutStartTest, WorkersThatCannotCountStepsAreNotWaitedFor) {
  options_.steps = StepsWanted{3, 10};
  options_.max_duration = absl::Hours(1);
  Script repeats = WithSteps(7, absl::Milliseconds(10));
  repeats.steps->increasing = false;
  const std::vector<WorkerResult> results = Run({repeats, Stock()});
  for (const WorkerResult& result : results) EXPECT_STREQ(Name(result.outcome.kind), "ok");
}

TEST_F(FanOutStartTest, AStepThatDoesNotComeIsGivenUp) {
  options_.steps = StepsWanted{3, 1'000'000};
  options_.max_duration = absl::Milliseconds(300);
  const std::vector<WorkerResult> results = Run({WithSteps(100, absl::Milliseconds(10))});
  EXPECT_STREQ(Name(results[0].outcome.kind), "failed");
  EXPECT_THAT(results[0].outcome.reason, HasSubstr("step 1000000 has not come within 300ms"));
}

TEST_F(FanOutStartTest, OneThatComesTooLateForTheStepRecordsLaterOnes) {
  options_.times.first_backoff = options_.times.max_backoff = absl::Seconds(2);
  options_.steps = StepsWanted{3, std::nullopt};
  options_.max_duration = absl::Seconds(30);
  const Script late = Late(WithSteps(100, absl::Milliseconds(5)));
  const std::vector<WorkerResult> results = Run({WithSteps(100, absl::Milliseconds(5)), late});
  EXPECT_STREQ(Name(results[1].outcome.kind), "ok");
  const v1::StepWindow window = *starts(1)[0].steps;
  EXPECT_GT(window.first(), fan_out_->facts().steps->first);
  EXPECT_EQ(window.last() - window.first(), 2);
  EXPECT_THAT(results[1].account.warnings,
              ElementsAre(HasSubstr("after the others"), HasSubstr("too late for step")));
}

// The plan has no ordinals, and its numbers are far from those.
TEST_F(FanOutStartTest, OneThatComesLateAndCountsDifferentlyRecordsItsNextSteps) {
  options_.times.first_backoff = options_.times.max_backoff = absl::Seconds(2);
  options_.steps = StepsWanted{3, std::nullopt};
  options_.max_duration = absl::Seconds(30);
  Script late = Late(WithSteps(0, absl::Milliseconds(5)));
  late.steps->increasing = false;
  late.steps->by_ordinal = true;
  const std::vector<WorkerResult> results = Run({WithSteps(500'000, absl::Milliseconds(5)), late});
  EXPECT_STREQ(Name(results[1].outcome.kind), "ok");
  const v1::StepWindow window = *starts(1)[0].steps;
  EXPECT_TRUE(window.by_ordinal());
  EXPECT_LT(window.first(), 500'000);
  EXPECT_EQ(window.last() - window.first(), 2);
  EXPECT_EQ(fan_out_->facts().workers_by_ordinal, 1U);
  EXPECT_THAT(
      results[1].account.warnings,
      ElementsAre(HasSubstr("after the others"), HasSubstr("differently"), HasSubstr("by count")));
}

TEST_F(FanOutStartTest, OneThatComesLateAndAloneHasStepsRecordsThem) {
  options_.times.first_backoff = options_.times.max_backoff = absl::Seconds(2);
  options_.steps = StepsWanted{3, std::nullopt};
  options_.max_duration = absl::Seconds(30);
  const std::vector<WorkerResult> results =
      Run({Script(), Late(WithSteps(100, absl::Milliseconds(5)))});
  EXPECT_STREQ(Name(results[1].outcome.kind), "ok");
  ASSERT_TRUE(starts(1)[0].steps.has_value());
  EXPECT_GT(starts(1)[0].steps->first(), 100);
  EXPECT_EQ(starts(1)[0].steps->last() - starts(1)[0].steps->first(), 2);
  EXPECT_EQ(starts(1)[0].duration, absl::Seconds(30));
}

}  // namespace
}  // namespace jobscope
