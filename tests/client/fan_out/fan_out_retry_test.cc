// SPDX-License-Identifier: Apache-2.0
//
// When a fan-out contacts again a worker that refused, and what its reason says of its attempts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "client/fan_out/fan_out.h"
#include "common/clock/monotonic.h"
#include "tests/client/fan_out/fan_out_fixture.h"
#include "tests/client/fan_out/scripted_worker.h"

namespace jobscope {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// A back-off that no test waits for, also on a busy machine.
constexpr absl::Duration kLongBackoff = absl::Seconds(50);

Script RefusedAlways() {
  Script script;
  script.describe = Refused;
  return script;
}

// A worker that is busy for so long, by its answer, and always.
Script BusyFor(absl::Duration remaining) {
  Script script;
  script.busy = true;
  script.busy_remaining_ms = static_cast<uint64_t>(absl::ToInt64Milliseconds(remaining));
  return script;
}

class FanOutRetryTest : public FanOutTest {
 protected:
  // Returns how long the run took.
  absl::Duration RunFor(const std::vector<Script>& scripts) {
    const absl::Time before = SteadyNow();
    results_ = Run(scripts);
    return SteadyNow() - before;
  }

  std::vector<WorkerResult> results_;
};

TEST_F(FanOutRetryTest, ABackOffEndsWithTheRecordingsOfTheOthers) {
  options_.attempts = 2;
  options_.times.first_backoff = options_.times.max_backoff = kLongBackoff;
  EXPECT_LT(RunFor({Script(), RefusedAlways()}), kLongBackoff);
  EXPECT_STREQ(Name(results_[1].outcome.kind), "unreachable");
  EXPECT_EQ(results_[1].account.attempts, 2);
}

TEST_F(FanOutRetryTest, ABackOffEndsWhenTheStepsOfTheOthersAreRecorded) {
  options_.attempts = 2;
  options_.times.first_backoff = options_.times.max_backoff = kLongBackoff;
  options_.steps = StepsWanted{2, std::nullopt};
  options_.max_duration = absl::Hours(1);
  Script stepping;
  stepping.steps = ScriptedSteps();
  EXPECT_LT(RunFor({stepping, RefusedAlways()}), kLongBackoff);
  EXPECT_EQ(results_[1].account.attempts, 2);
}

TEST_F(FanOutRetryTest, AWorkerThatComesUpDuringTheRecordingsIsCaptured) {
  options_.attempts = 2;
  options_.times.first_backoff = options_.times.max_backoff = kLongBackoff;
  Script late;
  late.describe = [](int attempt) { return attempt == 0 ? Refused(0) : grpc::Status::OK; };
  EXPECT_LT(RunFor({Script(), late}), kLongBackoff);
  EXPECT_STREQ(Name(results_[1].outcome.kind), "ok");
  EXPECT_EQ(starts(1)[0].duration, options_.duration);
}

// Else all attempts would follow each other at once.
TEST_F(FanOutRetryTest, LaterBackOffsLastTheirTime) {
  options_.times.first_backoff = options_.times.max_backoff = absl::Seconds(1);
  EXPECT_GE(RunFor({Script(), RefusedAlways()}), options_.times.max_backoff);
  EXPECT_EQ(results_[1].account.attempts, 3);
}

TEST_F(FanOutRetryTest, ABackOffWithoutRecordingsLastsItsTime) {
  options_.attempts = 2;
  options_.times.first_backoff = options_.times.max_backoff = absl::Seconds(1);
  EXPECT_GE(RunFor({RefusedAlways()}), options_.times.max_backoff);
}

TEST_F(FanOutRetryTest, ABusyWorkerIsContactedWhenItMayBeFree) {
  options_.attempts = 2;
  options_.times.max_backoff = absl::Minutes(1);
  const absl::Duration remaining = absl::Milliseconds(1500);
  EXPECT_GE(RunFor({Script(), BusyFor(remaining)}), remaining);
  EXPECT_EQ(results_[1].account.attempts, 2);
}

TEST_F(FanOutRetryTest, TheReasonStatesTheAttemptsAndTheirTime) {
  options_.times.first_backoff = options_.times.max_backoff = absl::Milliseconds(200);
  RunFor({RefusedAlways(), BusyFor(absl::Milliseconds(1))});
  EXPECT_THAT(results_[0].outcome.reason, ContainsRegex("; 3 attempts in [0-9]+[.][0-9] s$"));
  EXPECT_THAT(results_[1].outcome.reason, ContainsRegex("; 3 attempts in [0-9]+[.][0-9] s$"));
  EXPECT_THAT(results_[1].outcome.reason, Not(HasSubstr("in 0.0 s")));
  options_.attempts = 1;
  RunFor({RefusedAlways()});
  EXPECT_THAT(results_[0].outcome.reason, Not(HasSubstr("attempts")));
}

}  // namespace
}  // namespace jobscope
