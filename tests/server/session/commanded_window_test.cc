// SPDX-License-Identifier: Apache-2.0
//
// Windows of commanded sessions: lookbacks and steps, relative to the zero that all workers share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "jobscope/detail/ticks.h"
#include "server/session/session_manager.h"
#include "tests/server/session/commanded_fixture.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

using CommandedWindowTest = CommandedFixture;

// The window of steps did not open.
bool NeverOpened(const SessionResult& result) {
  const auto& warnings = result.summary.warnings();
  return std::any_of(warnings.begin(), warnings.end(), [](const std::string& warning) {
    return absl::StrContains(warning, "no step with a number of");
  });
}

TEST_F(CommandedWindowTest, ALookbackBeginsNoEarlierThanTheSharedZero) {
  Make({&a_, &b_});
  const uint64_t held = detail::ReadTicks(true);
  a_.set_oldest_ticks(held);
  Commanded session = SubmitOnCommand(absl::Hours(1));
  const SessionArmed armed = session.Armed();
  EXPECT_GE(armed.lookback, absl::Milliseconds(90)) << "a young worker waited so long";
  EXPECT_LE(armed.lookback, absl::Hours(1));

  StartCommand command = In(0, absl::ZeroDuration());
  command.zero_monotonic_ns -= 20 * kMillisecondNs;
  ASSERT_TRUE(manager_->Command(session.pending.ticket, command));
  const SessionResult result = session.pending.Get();
  const StartRequest request = a_.start_request();
  EXPECT_EQ(request.start_ticks, request.map.zero_ticks());
  EXPECT_GT(request.start_ticks, held);
  EXPECT_NEAR(static_cast<double>(result.summary.lookback_ns()), 20e6, 10);
  EXPECT_EQ(result.summary.ended_by(), "duration");
  EXPECT_FALSE(result.summary.truncated());
}

TEST_F(CommandedWindowTest, ALookbackThatTheRingsHaveLostBeginsLaterThanTheZero) {
  Make({&a_});
  Commanded session = SubmitOnCommand(absl::Hours(1));
  session.Armed();
  const uint64_t held = detail::ReadTicks(true);
  a_.set_oldest_ticks(held);
  StartCommand command = In(0, absl::ZeroDuration());
  command.zero_monotonic_ns -= 60'000 * kMillisecondNs;
  ASSERT_TRUE(manager_->Command(session.pending.ticket, command));
  const SessionResult result = session.pending.Get();
  EXPECT_EQ(a_.start_request().start_ticks, held);
  EXPECT_LT(result.summary.lookback_ns(), 60'000 * kMillisecondNs);
  EXPECT_GE(result.summary.duration_ns(), 60'000 * kMillisecondNs) << "the zero stays";
}

TEST_F(CommandedWindowTest, StepsAreWatchedForAtOnceAndTheZeroStays) {
  a_.set_watches_steps(true);
  Make({&a_, &b_});
  Commanded session = SubmitOnCommand();
  session.Armed();
  StartCommand command = In(kHourNs, absl::Hours(2));
  command.zero_monotonic_ns = WorkerMonotonicNs() - kMillisecondNs;
  const uint64_t open = detail::ReadTicks(true) + 1'000'000'000;
  a_.OpenStepWindowAt(open, open + 5'000'000);
  command.steps = StepRange{10, 20};
  ASSERT_TRUE(manager_->Command(session.pending.ticket, command));
  EXPECT_EQ(session.Started().start_monotonic_ns / 1000, command.start_monotonic_ns / 1000)
      << "at the instant all watch for it";
  const SessionResult result = session.pending.Get();
  EXPECT_EQ(result.summary.ended_by(), "steps");
  EXPECT_FALSE(result.summary.truncated());
  const StartRequest watcher = a_.start_request();
  EXPECT_TRUE(watcher.keep_zero);
  ASSERT_TRUE(watcher.steps.has_value());
  EXPECT_EQ(watcher.steps->first, 10);
  const StartRequest other = b_.start_request();
  EXPECT_FALSE(other.steps.has_value());
  EXPECT_EQ(other.start_ticks, open);
  EXPECT_EQ(other.map.zero_ticks(), watcher.map.zero_ticks()) << "commanded, not the opening";
  EXPECT_GT(other.map.ToPs(open), 0);
  EXPECT_THAT(result.summary.warnings(), Not(Contains(HasSubstr("before the common start"))));
}

// A client before the rule that these exclude each other.
TEST_F(CommandedWindowTest, StepsWithALookbackAreRecordedWithoutIt) {
  a_.set_watches_steps(true);
  Make({&a_});
  Commanded session = SubmitOnCommand(absl::Seconds(1));
  session.Armed();
  StartCommand command = In(0, absl::Hours(2));
  const uint64_t open = detail::ReadTicks(true) + 1'000'000'000;
  a_.OpenStepWindowAt(open, open + 5'000'000);
  command.steps = StepRange{10, 20};
  ASSERT_TRUE(manager_->Command(session.pending.ticket, command));
  const SessionResult result = session.pending.Get();
  EXPECT_EQ(result.summary.ended_by(), "steps");
  EXPECT_EQ(result.summary.lookback_ns(), 0u);
  EXPECT_THAT(result.summary.warnings(), Contains(HasSubstr("has no lookback")));
}

TEST_F(CommandedWindowTest, AStepThatBeganBeforeTheZeroIsSaid) {
  a_.set_watches_steps(true);
  Make({&a_});
  Commanded session = SubmitOnCommand();
  session.Armed();
  const uint64_t open = detail::ReadTicks(true);
  StartCommand command = In(20 * kMillisecondNs, absl::Hours(2));
  command.steps = StepRange{10, 20};
  a_.OpenStepWindowAt(open, open + 1'000'000'000);
  ASSERT_TRUE(manager_->Command(session.pending.ticket, command));
  const SessionResult result = session.pending.Get();
  EXPECT_EQ(result.summary.ended_by(), "steps");
  EXPECT_THAT(result.summary.warnings(),
              Contains(HasSubstr("ms before the common start of all workers")));
}

TEST_F(CommandedWindowTest, TheDurationBoundsTheWaitForStepsToo) {
  a_.set_watches_steps(true);
  Make({&a_});
  Commanded session = SubmitOnCommand();
  session.Armed();
  StartCommand command = In(0, absl::Milliseconds(30));
  command.steps = StepRange{10, 20};
  ASSERT_TRUE(manager_->Command(session.pending.ticket, command));
  const SessionResult result = session.pending.Get();
  EXPECT_EQ(result.summary.ended_by(), "duration");
  EXPECT_TRUE(result.summary.truncated());
  ASSERT_GE(result.summary.warnings_size(), 1);
  EXPECT_THAT(result.summary.warnings(0), HasSubstr("no step with a number of 10 or more"));
  EXPECT_FALSE(result.summary.has_step_window());

  // And waiting and recording together, where the window opens and does not close.
  // Longer where the collector's thread, which opens it, was not run in time.
  for (absl::Duration duration = absl::Milliseconds(50);; duration *= 2) {
    ASSERT_TRUE(Becomes([&] { return State() == "idle"; }));
    Commanded open = SubmitOnCommand();
    open.Armed();
    a_.OpenStepWindowAt(detail::ReadTicks(true), 0);
    command = In(0, duration);
    command.steps = StepRange{10, 20};
    ASSERT_TRUE(manager_->Command(open.pending.ticket, command));
    const SessionResult cut = open.pending.Get();
    EXPECT_EQ(cut.summary.ended_by(), "duration");
    EXPECT_TRUE(cut.summary.truncated());
    if (NeverOpened(cut)) {
      ASSERT_LT(duration, absl::Seconds(10));
      continue;
    }
    EXPECT_NEAR(static_cast<double>(cut.summary.duration_ns() - cut.summary.late_ns()),
                absl::ToDoubleNanoseconds(duration), 10);
    break;
  }
}

}  // namespace
}  // namespace jobscope
