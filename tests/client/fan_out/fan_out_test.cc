// SPDX-License-Identifier: Apache-2.0
//
// Tests the decisions of a fan-out, with workers that need no network: which worker is contacted,
// retried, waited for or abandoned.
#include "client/fan_out/fan_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/clock/monotonic.h"
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

TEST_F(FanOutTest, AllStartAtOneInstant) {
  const std::vector<WorkerResult> results = Run(std::vector<Script>(8));
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_STREQ(Name(results[i].outcome.kind), "ok");
    EXPECT_EQ(results[i].account.attempts, 1);
    EXPECT_EQ(results[i].account.protocol, Protocol::kNative);
    EXPECT_THAT(results[i].account.warnings, IsEmpty());
    ASSERT_EQ(starts(i).size(), 1u);
    EXPECT_EQ(starts(i)[0].start_monotonic_ns, starts(0)[0].start_monotonic_ns);
    EXPECT_EQ(starts(i)[0].zero_monotonic_ns, starts(0)[0].start_monotonic_ns);
    EXPECT_EQ(arms(i)[0].file_stem, absl::StrCat("w", i, "_1"));
    EXPECT_EQ(arms(i)[0].session_id, "mine");
  }
  EXPECT_EQ(absl::ToUnixNanos(*fan_out_->facts().started), starts(0)[0].start_unix_ns);
  EXPECT_TRUE(fan_out_->facts().spread_ns.has_value());
  EXPECT_FALSE(fan_out_->facts().lookback_ns.has_value());
}

TEST_F(FanOutTest, ALimitBeyondAllTimesIsNone) {
  Script unlimited;
  unlimited.max_duration_ms = UINT64_MAX;
  EXPECT_STREQ(Name(Run({unlimited})[0].outcome.kind), "ok");
}

TEST_F(FanOutTest, OneAloneWaitsForNobody) {
  // Nor is any time limit waited for: each would be a minute.
  options_.times.gather = absl::Minutes(1);
  const absl::Time before = absl::Now();
  Run({Script()});
  EXPECT_LT(absl::Now() - before, absl::Seconds(30));
}

TEST_F(FanOutTest, ADelayIsOnTheClock) {
  options_.delay = absl::Milliseconds(1300);
  ExpectWithin(options_.delay + absl::Seconds(1), [this] {
    const absl::Time before = absl::Now();
    Run({Script(), Stock()});
    EXPECT_GE(starts(0)[0].start_unix_ns, absl::ToUnixNanos(before + options_.delay));
    EXPECT_EQ(starts(0)[0].start_unix_ns, starts(1)[0].start_unix_ns);
    return absl::FromUnixNanos(starts(0)[0].start_unix_ns) - before;
  });
}

// Workers let nobody be armed for more than ten minutes, and a delay may last an hour.
TEST_F(FanOutTest, WhoeverMayNotBeArmedForSoLongIsArmedAnew) {
  options_.delay = absl::Milliseconds(4500);
  Script limited;
  limited.armed_limit = [](int) { return absl::Milliseconds(1500); };
  const absl::Time before = absl::Now();
  const std::vector<WorkerResult> results = Run({limited, limited, Stock()});
  for (const size_t i : {0, 1}) {
    EXPECT_STREQ(Name(results[i].outcome.kind), "ok") << results[i].outcome.reason;
    EXPECT_GE(arms(i).size(), 2u);
    ASSERT_EQ(starts(i).size(), 1u);
    // The delay counts from the first time (else it would never end), and both start together.
    EXPECT_EQ(starts(i)[0].start_unix_ns, starts(0)[0].start_unix_ns);
    EXPECT_GE(starts(i)[0].start_unix_ns, absl::ToUnixNanos(before + options_.delay));
  }
}

TEST_F(FanOutTest, ADelayCountsFromTheFirstTimeThatAllWereArmed) {
  options_.delay = absl::Milliseconds(4500);
  Script limited;
  limited.armed_limit = [](int) { return absl::Milliseconds(1500); };
  const std::vector<WorkerResult> results = Run({limited});
  EXPECT_STREQ(Name(results[0].outcome.kind), "ok") << results[0].outcome.reason;
  EXPECT_GE(arms(0).size(), 2u);  // counted from each time, it would never end
}

TEST_F(FanOutTest, ARefusedConnectionIsTriedAgainAndHoldsNobodyUp) {
  Script refused;
  refused.describe = Refused;
  const std::vector<WorkerResult> results = Run({Script(), refused, Script()});
  EXPECT_STREQ(Name(results[0].outcome.kind), "ok");
  EXPECT_STREQ(Name(results[2].outcome.kind), "ok");
  EXPECT_STREQ(Name(results[1].outcome.kind), "unreachable");
  EXPECT_EQ(results[1].account.attempts, 3);
  EXPECT_EQ(results[1].account.protocol, std::nullopt) << "nobody knows what it speaks";
  EXPECT_EQ(connects(1), 3);
  EXPECT_TRUE(starts(1).empty());
  // Nobody waited for the second attempt, which comes after 40 ms.
  EXPECT_EQ(connects(0), 1);
}

TEST_F(FanOutTest, OneThatComesUpLateIsStillCaptured) {
  options_.times.first_backoff = options_.times.max_backoff = absl::Seconds(2);
  Script late;
  late.describe = [](int attempt) { return attempt < 2 ? Refused(0) : Status::OK; };
  const std::vector<WorkerResult> results = Run({Script(), late});
  EXPECT_STREQ(Name(results[1].outcome.kind), "ok");
  EXPECT_EQ(results[1].account.attempts, 3);
  ASSERT_EQ(starts(1).size(), 1u);
  // On the same zero, for the same length, and it says so.
  EXPECT_EQ(starts(1)[0].zero_monotonic_ns, starts(0)[0].zero_monotonic_ns);
  EXPECT_GT(starts(1)[0].start_monotonic_ns, starts(0)[0].start_monotonic_ns);
  EXPECT_EQ(starts(1)[0].duration, options_.duration);
  EXPECT_THAT(results[1].account.warnings, ElementsAre(HasSubstr("after the others")));
}

TEST_F(FanOutTest, ASilentOneHoldsTheOthersNoLongerThanTheGatherTime) {
  options_.times.gather = absl::Milliseconds(100);
  Script silent;
  silent.describe_takes = absl::InfiniteDuration();
  const std::vector<WorkerResult> results = Run({Script(), silent});
  EXPECT_STREQ(Name(results[0].outcome.kind), "ok");
  EXPECT_STREQ(Name(results[1].outcome.kind), "timeout");
  EXPECT_STREQ(Name(results[1].outcome.phase), "describe");
  EXPECT_EQ(connects(1), 1) << "silence is not asked again";
  EXPECT_EQ(hangs_->by_limit, 0);
}

TEST_F(FanOutTest, BusyIsRetriedAndThenReported) {
  Script busy;
  busy.busy = true;
  const std::vector<WorkerResult> results = Run({busy});
  EXPECT_STREQ(Name(results[0].outcome.kind), "busy");
  EXPECT_THAT(results[0].outcome.reason, HasSubstr("'other'"));
  EXPECT_EQ(results[0].account.attempts, 3);
}

TEST_F(FanOutTest, BusyBeyondAllTimesIsRetriedAfterTheLongestPause) {
  options_.attempts = 2;
  options_.times.first_backoff = absl::Milliseconds(1);
  options_.times.max_backoff = absl::Seconds(1);
  Script busy;
  busy.busy = true;
  busy.busy_remaining_ms = UINT64_MAX;
  const absl::Time before = SteadyNow();
  EXPECT_STREQ(Name(Run({busy})[0].outcome.kind), "busy");
  EXPECT_GE(SteadyNow() - before, options_.times.max_backoff);
}

TEST_F(FanOutTest, RefusedToArmBecauseBusyIsRetried) {
  Script busy;
  busy.arm = [](int attempt) {
    return attempt < 2 ? Status(StatusCode::ALREADY_EXISTS, "busy with session 'x'") : Status::OK;
  };
  const std::vector<WorkerResult> results = Run({Script(), busy});
  EXPECT_STREQ(Name(results[1].outcome.kind), "ok");
  EXPECT_EQ(results[1].account.attempts, 3);
}

TEST_F(FanOutTest, RefusedToArmForGoodIsReported) {
  Script refuses;
  refuses.arm = [](int) { return Status(StatusCode::PERMISSION_DENIED, "not you"); };
  const std::vector<WorkerResult> results = Run({refuses, Script()});
  EXPECT_STREQ(Name(results[0].outcome.kind), "refused");
  EXPECT_STREQ(Name(results[0].outcome.phase), "arm");
  EXPECT_EQ(results[0].account.attempts, 1);
  EXPECT_STREQ(Name(results[1].outcome.kind), "ok");
}

TEST_F(FanOutTest, OneThatHangsWhileItArmsDelaysTheOthersByTheGatherTime) {
  options_.times.gather = absl::Milliseconds(100);
  Script hangs;
  hangs.arm_takes = absl::InfiniteDuration();
  const std::vector<WorkerResult> results = Run({Script(), hangs});
  EXPECT_STREQ(Name(results[0].outcome.kind), "ok");
  EXPECT_STREQ(Name(results[1].outcome.kind), "timeout");
  EXPECT_STREQ(Name(results[1].outcome.phase), "arm");
  EXPECT_EQ(hangs_->by_limit, 0);
}

TEST_F(FanOutTest, OneThatDiesArmedIsTriedAgain) {
  Script dies;
  dies.dies_armed = [](int) { return absl::ZeroDuration(); };
  const std::vector<WorkerResult> results = Run({Script(), dies});
  EXPECT_STREQ(Name(results[0].outcome.kind), "ok");
  EXPECT_STREQ(Name(results[1].outcome.kind), "unreachable");
  EXPECT_STREQ(Name(results[1].outcome.phase), "arm");
  EXPECT_EQ(results[1].account.attempts, 3);
}

TEST_F(FanOutTest, ARecordingThatStartedIsNotRunTwice) {
  options_.duration = absl::Hours(1);
  Script dies;
  dies.capture = [](int) { return Status(StatusCode::UNAVAILABLE, "Socket closed"); };
  dies.capture_fails_after = absl::Milliseconds(100);
  const std::vector<WorkerResult> results = Run({dies});
  EXPECT_STREQ(Name(results[0].outcome.kind), "died");
  EXPECT_STREQ(Name(results[0].outcome.phase), "record");
  EXPECT_EQ(starts(0).size(), 1u);
  EXPECT_EQ(results[0].account.attempts, 1);
}

// A worker whose clock could not be measured begins before the common start, here almost a second.
TEST_F(FanOutTest, ARecordingThatStartedBeforeTheOthersIsNotRunTwice) {
  options_.delay = absl::Seconds(1);
  Script dies;
  dies.sync_fails = Status(StatusCode::UNIMPLEMENTED, "");
  dies.capture = [](int) { return Status(StatusCode::UNAVAILABLE, "Socket closed"); };
  const std::vector<WorkerResult> results = Run({dies});
  EXPECT_FALSE(starts(0)[0].clock.has_value());
  EXPECT_STREQ(Name(results[0].outcome.kind), "died");
  EXPECT_STREQ(Name(results[0].outcome.phase), "record");
  EXPECT_EQ(starts(0).size(), 1u);
}

TEST_F(FanOutTest, ConnectionsOfWorkersThatHaveDeliveredAreClosedAfterTheRun) {
  Script refuses;
  refuses.describe = Refused;
  options_.attempts = 2;
  Run({Script(), refuses});
  EXPECT_THAT(connections(0), ElementsAre(true));
  EXPECT_THAT(connections(1), ElementsAre(false, false));
  fan_out_.reset();
  EXPECT_THAT(connections(0), ElementsAre(false));
}

TEST_F(FanOutTest, WhatCameBeforeADeathIsWritten) {
  Script dies;
  dies.capture = [](int) { return Status(StatusCode::UNAVAILABLE, "Socket closed"); };
  dies.capture_fails_after = absl::Milliseconds(100);
  dies.truncates = true;
  const std::vector<WorkerResult> results = Run({dies, Script()});
  EXPECT_STREQ(Name(results[0].outcome.kind), "truncated");
}

TEST_F(FanOutTest, ASlowAnswerIsWaitedFor) {
  Script slow;
  slow.answer_after_end = absl::Seconds(1);
  const std::vector<WorkerResult> results = Run({slow});
  EXPECT_STREQ(Name(results[0].outcome.kind), "ok");
}

TEST_F(FanOutTest, ResultsAreWrittenAsTheyCome) {
  Script slow;
  slow.answer_after_end = absl::Seconds(4);
  Run({slow, Script()});
  EXPECT_LT(written(1), written(0));
}

TEST_F(FanOutTest, FewerThanMinWorkersRecordsNothing) {
  options_.min_workers = 2;
  Script refused;
  refused.describe = Refused;
  const std::vector<WorkerResult> results = Run({Script(), refused});
  EXPECT_STREQ(Name(results[0].outcome.kind), "failed");
  EXPECT_STREQ(Name(results[0].outcome.phase), "arm");
  EXPECT_THAT(results[0].outcome.reason, HasSubstr("--min_workers=2"));
  EXPECT_TRUE(starts(0).empty());
  EXPECT_FALSE(fan_out_->facts().started.has_value());
}

TEST_F(FanOutTest, MinWorkersWaitsForRetries) {
  options_.min_workers = 2;
  Script late;
  late.describe = [](int attempt) { return attempt < 2 ? Refused(0) : Status::OK; };
  const std::vector<WorkerResult> results = Run({Script(), late});
  EXPECT_STREQ(Name(results[1].outcome.kind), "ok");
  EXPECT_EQ(starts(0)[0].start_monotonic_ns, starts(1)[0].start_monotonic_ns);
}

TEST_F(FanOutTest, MinWorkersCountsThoseThatDieArmed) {
  options_.min_workers = 2;
  Script dies;
  dies.dies_armed = [](int) { return absl::ZeroDuration(); };
  const std::vector<WorkerResult> results = Run({Script(), dies});
  EXPECT_STREQ(Name(results[0].outcome.kind), "failed");
  EXPECT_THAT(results[0].outcome.reason, HasSubstr("only 1 of 2"));
  EXPECT_TRUE(starts(0).empty());
}

// One is lost while the clock of another is being measured: both wait for its next attempt.
TEST_F(FanOutTest, MinWorkersWaitsForRetriesAlsoInTheClockPhase) {
  options_.min_workers = 2;
  Script slow;
  slow.latency = absl::Milliseconds(150);
  Script dies;
  dies.dies_armed = [](int attempt) -> std::optional<absl::Duration> {
    if (attempt > 0) return std::nullopt;
    return absl::Milliseconds(250);
  };
  const std::vector<WorkerResult> results = Run({slow, dies});
  for (const WorkerResult& result : results) {
    EXPECT_STREQ(Name(result.outcome.kind), "ok") << result.outcome.reason;
  }
  EXPECT_EQ(results[1].account.attempts, 2);
  EXPECT_EQ(starts(0)[0].start_monotonic_ns, starts(1)[0].start_monotonic_ns);
}

// The limit on staying armed expires while the clock of another worker is being measured.
TEST_F(FanOutTest, OneThatWasArmedForTooLongIsArmedAgainInTheClockPhase) {
  Script slow;
  slow.latency = absl::Milliseconds(300);
  Script limited;
  limited.armed_limit = [](int attempt) -> std::optional<absl::Duration> {
    if (attempt > 0) return std::nullopt;
    return absl::Milliseconds(450);
  };
  const std::vector<WorkerResult> results = Run({slow, limited});
  for (const WorkerResult& result : results) {
    EXPECT_STREQ(Name(result.outcome.kind), "ok") << result.outcome.reason;
  }
  EXPECT_EQ(results[1].account.attempts, 2);
  EXPECT_EQ(starts(1).size(), 1u);
}

TEST_F(FanOutTest, OneThatIsNeverArmedForLongEnoughUsesUpItsAttempts) {
  Script slow;
  slow.latency = absl::Milliseconds(300);
  Script limited;
  limited.armed_limit = [](int) { return absl::Milliseconds(1); };
  const std::vector<WorkerResult> results = Run({slow, limited});
  EXPECT_STREQ(Name(results[0].outcome.kind), "ok");
  EXPECT_STREQ(Name(results[1].outcome.kind), "timeout");
  EXPECT_STREQ(Name(results[1].outcome.phase), "arm");
  EXPECT_EQ(results[1].account.attempts, 3);
}

// More silent ones than places, and workers on both sides of them: all are asked, and those that
// live start together.
TEST_F(FanOutTest, ASilentCrowdHoldsNobodyUp) {
  options_.max_parallel = 4;
  options_.times.stall = absl::Milliseconds(50);
  options_.times.gather = absl::Seconds(1);
  Script silent;
  silent.describe_takes = absl::InfiniteDuration();
  std::vector<Script> scripts(14, silent);
  scripts.front() = scripts.back() = Script();
  const std::vector<WorkerResult> results = Run(scripts);
  // Before any silent one was abandoned, whose place the last one would have taken otherwise.
  EXPECT_EQ(hangs_->by_limit, 0);
  for (size_t i = 1; i < 13; ++i) EXPECT_STREQ(Name(results[i].outcome.kind), "timeout");
  for (const size_t i : {0, 13}) {
    EXPECT_STREQ(Name(results[i].outcome.kind), "ok");
    EXPECT_THAT(results[i].account.warnings, IsEmpty());
    ASSERT_EQ(starts(i).size(), 1u);
  }
  EXPECT_EQ(starts(0)[0].start_monotonic_ns, starts(13)[0].start_monotonic_ns);
}

// Many time limits expire before the last one is asked. Waiting for them all would take minutes.
TEST_F(FanOutTest, ASilentCrowdIsNoSlowerWhenItsTimeLimitsExpire) {
  options_.max_parallel = 4;
  options_.times.connect = absl::Seconds(1);
  options_.times.stall = absl::Milliseconds(10);
  Script silent;
  silent.describe_takes = absl::InfiniteDuration();
  std::vector<Script> scripts(900, silent);
  scripts.back() = Script();
  const absl::Time before = absl::Now();
  const std::vector<WorkerResult> results = Run(scripts);
  EXPECT_LT(absl::Now() - before, absl::Seconds(60));
  EXPECT_GT(hangs_->by_limit, 0);
  EXPECT_EQ(results.back().outcome.kind, Outcome::kOk) << results.back().outcome.reason;
}

// Likewise those that are armed and do not become ready, and those whose clock is not answered for.
TEST_F(FanOutTest, ACrowdThatHangsLaterHoldsNobodyUpEither) {
  options_.max_parallel = 4;
  options_.times.stall = absl::Milliseconds(50);
  options_.times.gather = absl::Seconds(1);
  for (const bool arming : {true, false}) {
    Script hangs;
    if (arming) {
      hangs.arm_takes = absl::InfiniteDuration();
    } else {
      hangs.sync_hangs = true;
    }
    std::vector<Script> scripts(14, hangs);
    scripts.front() = scripts.back() = Script();
    const std::vector<WorkerResult> results = Run(scripts);
    EXPECT_EQ(hangs_->by_limit, 0) << arming;
    for (const size_t i : {0, 13}) {
      EXPECT_STREQ(Name(results[i].outcome.kind), "ok");
      EXPECT_THAT(results[i].account.warnings, IsEmpty()) << arming;
    }
    EXPECT_EQ(starts(0)[0].start_monotonic_ns, starts(13)[0].start_monotonic_ns) << arming;
  }
}

// What one that is late costs must not grow with the number of workers: they may all be late.
TEST_F(FanOutTest, LateOnesCostTheSameHoweverManyThereAre) {
  options_.max_parallel = 16384;
  options_.times.first_backoff = absl::Milliseconds(200);
  options_.duration = absl::Milliseconds(10);
  const auto cpu_of = [this](size_t workers) {
    Script late;
    late.clock_id = "another machine's";
    late.arm_round_trip = absl::Milliseconds(1);
    late.describe = [](int attempt) { return attempt == 0 ? Refused(0) : Status::OK; };
    std::vector<Script> scripts(workers, late);
    scripts[0].describe = [](int) { return Status::OK; };
    Make(std::move(scripts));
    timespec begin{};
    timespec end{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    fan_out_->Run();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    return absl::DurationFromTimespec(end) - absl::DurationFromTimespec(begin);
  };
  cpu_of(100);  // whatever is done once
  const absl::Duration few = cpu_of(300);
  const absl::Duration many = cpu_of(3000);
  // Ten times as many; each for each would be a hundred times.
  EXPECT_LT(many, 35 * few) << few << " " << many;
}

TEST_F(FanOutTest, MaxParallelBoundsConnecting) {
  options_.max_parallel = 3;
  const std::vector<WorkerResult> results = Run(std::vector<Script>(20));
  for (const WorkerResult& result : results) EXPECT_STREQ(Name(result.outcome.kind), "ok");
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(starts(i)[0].start_monotonic_ns, starts(0)[0].start_monotonic_ns);
  }
}

TEST_F(FanOutTest, AThousandWorkers) {
  const std::vector<WorkerResult> results = Run(std::vector<Script>(1000));
  EXPECT_EQ(std::count_if(results.begin(), results.end(),
                          [](const WorkerResult& r) { return r.outcome.kind == Outcome::kOk; }),
            1000);
}

}  // namespace
}  // namespace jobscope
