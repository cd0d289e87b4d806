// SPDX-License-Identifier: Apache-2.0
//
// Tests sessions that arm, wait for their command, and start at its instant.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "jobscope/detail/ticks.h"
#include "server/session/session_manager.h"
#include "tests/server/session/commanded_fixture.h"
#include "tests/server/session/session_fixture.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

using CommandedSessionTest = CommandedFixture;

TEST_F(CommandedSessionTest, ArmsTellsSoAndWaits) {
  Make({&a_, &b_});
  b_.FailIn("arm", absl::PermissionDeniedError("ask the administrator"));
  Commanded session = SubmitOnCommand();
  const SessionArmed armed = session.Armed();
  EXPECT_EQ(armed.store->last_number(), 0u);
  ASSERT_EQ(armed.collectors.size(), 2u);
  EXPECT_EQ(armed.collectors[0].state(), "on");
  EXPECT_EQ(armed.collectors[1].state(), "failed");
  EXPECT_EQ(armed.collectors[1].reason(), "ask the administrator");
  EXPECT_EQ(armed.lookback, absl::ZeroDuration());
  EXPECT_EQ(State(), "armed");
  EXPECT_EQ(manager_->Progress(session.pending.ticket)->phase, SessionPhase::kArmed);
  EXPECT_THAT(a_.calls(), Not(Contains("start")));

  const absl::Status refused = Submit(For(absl::Seconds(1)), WhenBusy::kRefuse).Get().status;
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a capture is armed here"));

  ASSERT_TRUE(manager_->Command(session.pending.ticket, In(0, absl::Milliseconds(10))));
  const SessionResult result = session.pending.Get();
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.store, armed.store);
  EXPECT_EQ(result.summary.ended_by(), "duration");
  EXPECT_FALSE(result.summary.truncated());
  EXPECT_EQ(result.summary.options().duration_ns(), 10 * kMillisecondNs);
}

TEST_F(CommandedSessionTest, StartsAtTheInstantOnMonotonic) {
  Make({&a_});
  Commanded session = SubmitOnCommand();
  session.Armed();
  StartCommand command;
  SessionStarted started;
  SessionResult result;
  // On a busy machine the session may reach its instant late; a later one it reaches in time.
  for (auto ahead_ns = static_cast<int64_t>(300 * kMillisecondNs);; ahead_ns *= 2) {
    command = In(ahead_ns, absl::Milliseconds(20));
    command.zero_monotonic_ns -= 50 * kMillisecondNs;
    command.zero_unix_ns = 1'234'567'890'123'456'789;
    command.clock_uncertainty_ns = 4711;
    command.clock_offset_ns = -7'000'000'000;
    ASSERT_TRUE(manager_->Command(session.pending.ticket, command));
    started = session.Started();
    result = session.pending.Get();
    if (started.late_ns == 0 || ahead_ns > static_cast<int64_t>(10'000 * kMillisecondNs)) break;
    ASSERT_TRUE(Becomes([&] { return State() == "idle"; }));
    session = SubmitOnCommand();
    session.Armed();
  }
  const StartRequest request = a_.start_request();
  // Half a tick each way, and the rounding of the map.
  EXPECT_NEAR(static_cast<double>(request.map.ToMonotonicNs(request.start_ticks)),
              static_cast<double>(command.start_monotonic_ns), 2);
  EXPECT_NEAR(static_cast<double>(request.map.ToPs(request.start_ticks)), 50e9, 2e3);
  EXPECT_NEAR(static_cast<double>(started.start_monotonic_ns),
              static_cast<double>(command.start_monotonic_ns), 2);
  EXPECT_EQ(started.late_ns, 0u);
  EXPECT_EQ(result.summary.late_ns(), 0u);
  EXPECT_NEAR(static_cast<double>(result.summary.duration_ns()), 70e6, 10);
  EXPECT_NEAR(static_cast<double>(result.summary.start_unix_ns()) -
                  static_cast<double>(result.summary.zero_unix_ns()),
              50e6, 1e3);
  EXPECT_EQ(result.summary.client_zero_unix_ns(), command.zero_unix_ns);
  EXPECT_EQ(result.summary.clock_uncertainty_ns(), 4711u);
  EXPECT_EQ(result.summary.clock_offset_ns(), -7'000'000'000);
}

TEST_F(CommandedSessionTest, WhatCameTooLateSaysByHowMuch) {
  Make({&a_});
  Commanded session = SubmitOnCommand();
  session.Armed();
  StartCommand command = In(-2'000 * static_cast<int64_t>(kMillisecondNs), absl::Milliseconds(5));
  ASSERT_TRUE(manager_->Command(session.pending.ticket, command));
  const SessionStarted started = session.Started();
  EXPECT_GE(started.late_ns, 2'000 * kMillisecondNs);
  EXPECT_EQ(started.start_monotonic_ns, command.start_monotonic_ns + started.late_ns);
  const SessionResult result = session.pending.Get();
  EXPECT_EQ(result.summary.late_ns(), started.late_ns);
  // The zero is still the commanded one.
  const StartRequest request = a_.start_request();
  EXPECT_GE(request.map.ToPs(request.start_ticks), 2'000'000'000'000);
}

TEST_F(CommandedSessionTest, ACollectorThatWasLateMakesTheStartLate) {
  Make({&a_});
  Commanded session = SubmitOnCommand();
  session.Armed();
  a_.set_recording_since(detail::ReadTicks(true) + 100'000'000'000);  // half a minute from now
  const StartCommand command = In(0, absl::Milliseconds(5));
  ASSERT_TRUE(manager_->Command(session.pending.ticket, command));
  const SessionStarted started = session.Started();
  EXPECT_GT(started.late_ns, 500 * kMillisecondNs);
  EXPECT_NEAR(static_cast<double>(started.start_monotonic_ns - command.start_monotonic_ns),
              static_cast<double>(started.late_ns), 2);
  EXPECT_EQ(session.pending.Get().summary.late_ns(), started.late_ns);
}

// The command is read after the instant; the collector was on before it.
TEST_F(CommandedSessionTest, ACollectorThatRecordsAheadIsInTime) {
  Make({&a_});
  Commanded session = SubmitOnCommand();
  session.Armed();
  a_.set_recording_since(detail::ReadTicks(true));
  const StartCommand command = In(1000, absl::Milliseconds(5));
  ASSERT_TRUE(Becomes([&] { return WorkerMonotonicNs() > command.start_monotonic_ns; }));
  ASSERT_TRUE(manager_->Command(session.pending.ticket, command));
  const SessionStarted started = session.Started();
  EXPECT_EQ(started.late_ns, 0u);
  EXPECT_NEAR(static_cast<double>(started.start_monotonic_ns),
              static_cast<double>(command.start_monotonic_ns), 2);
  const SessionResult result = session.pending.Get();
  EXPECT_EQ(result.summary.late_ns(), 0u);
  EXPECT_NEAR(static_cast<double>(result.summary.duration_ns()), 5e6, 10);
}

// Well ahead of the instant, so that no busy machine makes them late.
TEST_F(CommandedSessionTest, CollectorsAreStartedAheadOfTheInstant) {
  Make({&a_});
  // Again where this thread, or the session's, was not run until the instant.
  for (int tries = 1;; ++tries) {
    Commanded session = SubmitOnCommand();
    session.Armed();
    const StartCommand command = In(900 * kMillisecondNs, absl::Milliseconds(1));
    ASSERT_TRUE(manager_->Command(session.pending.ticket, command));
    ASSERT_TRUE(a_.AwaitCalls("start", tries));
    const bool reported = session.has_started->load();
    const bool ahead = WorkerMonotonicNs() < command.start_monotonic_ns;
    const SessionStarted started = session.Started();
    EXPECT_GE(WorkerMonotonicNs(), command.start_monotonic_ns - 1000);
    session.pending.Get();
    if (ahead) {
      EXPECT_FALSE(reported) << "reported when it was on, not when it began";
      EXPECT_EQ(started.late_ns, 0u);
      break;
    }
    ASSERT_LT(tries, 10) << "started only at the instant";
    ASSERT_TRUE(Becomes([&] { return State() == "idle"; }));
  }
}

// The map of ticks to time needs 100 ms: they pass before `armed`, not between instant and start.
TEST_F(CommandedSessionTest, AYoungWorkerWaitsBeforeItSaysThatItIsArmed) {
  uint64_t late_ns = UINT64_MAX;
  // A busy machine may be late by more than that, but not always.
  for (int i = 0; i < 20 && late_ns >= 90 * kMillisecondNs; ++i) {
    const uint64_t made_ns = WorkerMonotonicNs();
    Make({&a_});
    Commanded session = SubmitOnCommand();
    session.Armed();
    EXPECT_GE(WorkerMonotonicNs() - made_ns, 100 * kMillisecondNs);
    ASSERT_TRUE(manager_->Command(session.pending.ticket, In(0, absl::Milliseconds(1))));
    late_ns = session.Started().late_ns;
    session.pending.Get();
    EXPECT_TRUE(manager_->Shutdown(absl::Seconds(60)));
  }
  EXPECT_LT(late_ns, 90 * kMillisecondNs);
}

TEST_F(CommandedSessionTest, OneCommandAtItsTime) {
  Make({&a_});
  a_.HangIn("arm");
  Commanded session = SubmitOnCommand();
  const SessionTicket ticket = session.pending.ticket;
  ASSERT_TRUE(a_.AwaitCalls("arm", 1));
  EXPECT_FALSE(manager_->Command(ticket, In(0, absl::Hours(1)))) << "not armed";
  a_.Release();
  session.Armed();
  EXPECT_FALSE(manager_->Command(ticket + 1, In(0, absl::Hours(1)))) << "nobody's";
  EXPECT_TRUE(manager_->Command(ticket, In(0, absl::Hours(1))));
  EXPECT_FALSE(manager_->Command(ticket, In(0, absl::Hours(1)))) << "the second";
  session.Started();
  manager_->Stop("native");
  EXPECT_TRUE(session.pending.Get().status.ok());
  EXPECT_FALSE(manager_->Command(ticket, In(0, absl::Hours(1)))) << "it has ended";
}

TEST_F(CommandedSessionTest, NoCommandForWhatWaitsForNone) {
  Make({&a_});
  SessionOptions options = For(absl::Seconds(1), "unary");
  options.start_unix_ns = RealtimeNs() + static_cast<int64_t>(kHourNs);
  Pending pending = Submit(std::move(options));
  ASSERT_TRUE(Becomes([&] { return State() == "waiting"; }));
  EXPECT_FALSE(manager_->Command(pending.ticket, In(0, absl::Seconds(1))));
  manager_->Cancel(pending.ticket);
  pending.Get();
}

TEST_F(CommandedSessionTest, TheCommandMayComeFromTheCallback) {
  Make({&a_});
  std::promise<SessionTicket> ticket;
  std::promise<bool> taken;
  std::promise<SessionResult> done;
  SessionOptions options = For(absl::ZeroDuration());
  options.on_command = true;
  SessionCallbacks callbacks;
  callbacks.armed = [&](const SessionArmed& /*armed*/) {
    taken.set_value(manager_->Command(ticket.get_future().get(), In(0, absl::Milliseconds(1))));
  };
  callbacks.done = [&](SessionResult result) { done.set_value(std::move(result)); };
  ticket.set_value(manager_->Submit(std::move(options), WhenBusy::kRefuse, absl::InfiniteFuture(),
                                    std::move(callbacks)));
  EXPECT_TRUE(taken.get_future().get());
  EXPECT_TRUE(done.get_future().get().status.ok());
}

TEST_F(CommandedSessionTest, EndsWhileArmed) {
  Make({&a_});
  Commanded cancelled = SubmitOnCommand();
  cancelled.Armed();
  manager_->Cancel(cancelled.pending.ticket);
  EXPECT_EQ(cancelled.pending.Get().status.code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(cancelled.has_started->load());
  EXPECT_TRUE(a_.AwaitCalls("stop", 1));

  ASSERT_TRUE(Becomes([&] { return State() == "idle"; }));
  Commanded stopped = SubmitOnCommand();
  stopped.Armed();
  EXPECT_EQ(manager_->Stop(""), "native");
  const SessionResult result = stopped.pending.Get();
  ASSERT_TRUE(result.status.ok());
  EXPECT_TRUE(result.summary.truncated());
  EXPECT_EQ(result.summary.ended_by(), "request");
  EXPECT_EQ(result.summary.start_unix_ns(), 0u);
  EXPECT_FALSE(stopped.has_started->load());

  ASSERT_TRUE(Becomes([&] { return State() == "idle"; }));
  Commanded left = SubmitOnCommand();
  left.Armed();
  EXPECT_TRUE(manager_->Shutdown(absl::Seconds(60)));
  EXPECT_EQ(left.pending.Get().summary.ended_by(), "shutdown");
}

TEST_F(CommandedSessionTest, AStopBeforeTheInstantEndsAtOnce) {
  Make({&a_});
  Commanded session = SubmitOnCommand();
  session.Armed();
  ASSERT_TRUE(manager_->Command(session.pending.ticket, In(kHourNs, absl::Seconds(1))));
  ASSERT_TRUE(Becomes([&] { return State() == "waiting"; }));
  manager_->Stop("native");
  EXPECT_TRUE(session.pending.Get().summary.truncated());
  EXPECT_FALSE(session.has_started->load());
}

TEST_F(CommandedSessionTest, ProgressTellsWhatIsKnown) {
  Make({&a_, &b_});
  EXPECT_FALSE(manager_->Progress(1).has_value());
  Commanded session = SubmitOnCommand();
  session.Armed();
  ASSERT_TRUE(manager_->Command(session.pending.ticket, In(0, absl::Hours(1))));
  ASSERT_TRUE(Becomes([&] {
    return manager_->Progress(session.pending.ticket)->phase == SessionPhase::kRecording;
  }));
  a_.set_lost_so_far(30);
  b_.set_lost_so_far(12);
  EXPECT_EQ(manager_->Progress(session.pending.ticket)->lost, 42u);
  EXPECT_EQ(manager_->Progress(session.pending.ticket)->events, 0u);
  EXPECT_FALSE(manager_->Progress(session.pending.ticket + 1).has_value());
  manager_->Stop("");
  const SessionResult result = session.pending.Get();
  EXPECT_EQ(result.store->events(), 2u);
  EXPECT_GT(result.store->appended_bytes(), 0u);
}

}  // namespace
}  // namespace jobscope
