// SPDX-License-Identifier: Apache-2.0
//
// Tests which callers of sessions wait, are refused, or end a session early.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/clock/monotonic.h"
#include "server/session/session_manager.h"
#include "tests/server/session/fake_collector.h"
#include "tests/server/session/session_fixture.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;

TEST_F(SessionTest, AStopDeliversWhatThereIs) {
  Make({&a_});
  Pending pending = Submit(For(absl::Hours(1), "long"));
  ASSERT_TRUE(a_.AwaitCalls("start", 1));
  EXPECT_FALSE(manager_->Stop("another").has_value());
  EXPECT_EQ(manager_->Stop("long"), "long");
  const SessionResult result = pending.Get();
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.summary.ended_by(), "request");
  EXPECT_TRUE(result.summary.truncated());
  EXPECT_LT(result.summary.duration_ns(), 3'600'000'000'000u);
  EXPECT_EQ(result.summary.events(), 1u);
}

TEST_F(SessionTest, AStopBeforeTheStartInstantEndsAtOnce) {
  Make({&a_});
  SessionOptions options = For(absl::Seconds(1), "early");
  options.start_unix_ns = absl::ToUnixNanos(absl::Now() + absl::Hours(1));
  Pending pending = Submit(std::move(options));
  ASSERT_TRUE(a_.AwaitCalls("arm", 1));
  while (!manager_->Stop("").has_value()) std::this_thread::yield();
  const SessionResult result = pending.Get();
  ASSERT_TRUE(result.status.ok());
  EXPECT_TRUE(result.summary.truncated());
}

TEST_F(SessionTest, ACancelledSessionIsDroppedAndFreesTheSlot) {
  Make({&a_});
  Pending pending = Submit(For(absl::Hours(1)));
  ASSERT_TRUE(a_.AwaitCalls("start", 1));
  manager_->Cancel(pending.ticket);
  EXPECT_EQ(pending.Get().status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(a_.AwaitCalls("stop", 1)) << "a cancelled session must stop its collectors";
  EXPECT_TRUE(Submit(For(absl::Milliseconds(1))).Get().status.ok());
}

TEST_F(SessionTest, ASecondCallerIsRefusedWithWhoAndHowLong) {
  Make({&a_});
  Pending first = Submit(For(absl::Hours(1), "first"));
  ASSERT_TRUE(a_.AwaitCalls("start", 1));
  ASSERT_TRUE(Becomes([this] { return manager_->busy()->state() == "recording"; }));
  const absl::Status refused = Submit(For(absl::Seconds(1)), WhenBusy::kRefuse).Get().status;
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("\"first\", asked for by test"));
  const auto busy = manager_->busy();
  ASSERT_TRUE(busy.has_value());
  EXPECT_EQ(busy->session_id(), "first");
  EXPECT_GT(busy->remaining_ms(), 3'500'000u);
  manager_->Stop("");
  first.Get();
}

TEST_F(SessionTest, ReportsItsStartWhenOthersSeeThatItRecords) {
  Make({&a_});
  std::promise<std::string> state;
  std::promise<void> done;
  SessionCallbacks callbacks;
  callbacks.started = [this, &state](const SessionStarted& /*started*/) {
    state.set_value(manager_->busy()->state());
  };
  callbacks.done = [&done](const SessionResult& /*result*/) { done.set_value(); };
  manager_->Submit(For(absl::Milliseconds(1)), WhenBusy::kWait, absl::InfiniteFuture(),
                   std::move(callbacks));
  EXPECT_EQ(state.get_future().get(), "recording");
  done.get_future().get();
}

// A large store takes a while to unmap: calls that ask who is busy do not wait for that.
TEST_F(SessionTest, WhatASessionHeldIsReleasedWithoutTheLock) {
  Make({&a_});
  std::promise<bool> answered;
  // Destroyed with the session, like its store.
  std::shared_ptr<void> held(nullptr, [this, &answered](void*) {
    const auto asked = std::make_shared<std::promise<void>>();
    std::future<void> answer = asked->get_future();
    std::thread([this, asked] {
      (void)manager_->busy();
      asked->set_value();
    }).detach();
    answered.set_value(answer.wait_for(kTimeout) == std::future_status::ready);
  });
  SessionCallbacks callbacks;
  callbacks.started = [held = std::move(held)](const SessionStarted& /*started*/) {};
  callbacks.done = [](const SessionResult& /*result*/) {};
  manager_->Submit(For(absl::Milliseconds(1)), WhenBusy::kWait, absl::InfiniteFuture(),
                   std::move(callbacks));
  EXPECT_TRUE(answered.get_future().get());
  EXPECT_TRUE(manager_->Shutdown(absl::Seconds(60)));
}

TEST_F(SessionTest, ASecondCallerIsRefusedWhileACollectorHangs) {
  // The collector's state when the second caller gets its answer.
  const auto state_when_reported = [this](const std::string& verb) {
    FakeCollector hanging("hanging");
    hanging.HangIn(verb);
    Make({&hanging});
    Pending first = Submit(For(absl::ZeroDuration()));
    EXPECT_TRUE(hanging.AwaitCalls(verb, 1));
    std::promise<std::string> reported;
    SessionCallbacks callbacks;
    callbacks.done = [&](const SessionResult& result) {
      EXPECT_EQ(result.status.code(), absl::StatusCode::kAlreadyExists);
      reported.set_value(manager_->DescribeCollectors()[0].state());
    };
    manager_->Submit(For(absl::Seconds(1)), WhenBusy::kRefuse, absl::InfiniteFuture(),
                     std::move(callbacks));
    const std::string state = reported.get_future().get();
    hanging.Release();
    first.Get();
    EXPECT_TRUE(manager_->Shutdown(absl::Seconds(60)));
    return state;
  };
  for (const std::string verb : {"arm", "stop"}) {
    std::string state;
    // Asked again where this thread itself has slept through the deadline.
    for (int i = 0; i < 5 && state != "on"; ++i) state = state_when_reported(verb);
    EXPECT_EQ(state, "on") << "only after the deadline of " << verb;
  }
}

TEST_F(SessionTest, QueuedCallersAreServedInOrder) {
  Make({&a_});
  Pending first = Submit(For(absl::Hours(1), "1"));
  Pending second = Submit(For(absl::Milliseconds(1), "2"));
  Pending third = Submit(For(absl::Milliseconds(1), "3"));
  ASSERT_TRUE(a_.AwaitCalls("start", 1));
  EXPECT_EQ(manager_->busy()->waiting(), 2u);
  EXPECT_FALSE(second.Ready());
  manager_->Stop("1");
  EXPECT_EQ(first.Get().summary.session_id(), "1");
  EXPECT_EQ(second.Get().summary.session_id(), "2");
  EXPECT_EQ(third.Get().summary.session_id(), "3");
}

TEST_F(SessionTest, ACallerThatLeavesTheLineIsAnsweredAtOnce) {
  Make({&a_});
  Pending first = Submit(For(absl::Hours(1)));
  ASSERT_TRUE(a_.AwaitCalls("start", 1));
  Pending second = Submit(For(absl::Seconds(1)));
  manager_->Cancel(second.ticket);
  EXPECT_EQ(second.Get().status.code(), absl::StatusCode::kCancelled);
  Pending third = Submit(For(absl::Seconds(1)), WhenBusy::kWait, SteadyNow() + absl::Seconds(1.1));
  EXPECT_EQ(third.Get().status.code(), absl::StatusCode::kDeadlineExceeded);
  // Deadlines are no dates: one of the machine's uptime is not over.
  Pending patient =
      Submit(For(absl::Milliseconds(1)), WhenBusy::kWait, SteadyNow() + absl::Hours(1));
  EXPECT_FALSE(patient.Ready());
  EXPECT_FALSE(first.Ready());
  manager_->Stop("");
  EXPECT_TRUE(first.Get().status.ok());
  EXPECT_TRUE(patient.Get().status.ok());
}

TEST_F(SessionTest, ShutdownDeliversTheRunningSessionAndRefusesTheLine) {
  Make({&a_});
  Pending first = Submit(For(absl::Hours(1)));
  ASSERT_TRUE(a_.AwaitCalls("start", 1));
  Pending second = Submit(For(absl::Seconds(1)));
  EXPECT_TRUE(manager_->Shutdown(absl::Seconds(60)));
  const SessionResult result = first.Get();
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.summary.ended_by(), "shutdown");
  EXPECT_TRUE(result.summary.truncated());
  EXPECT_EQ(second.Get().status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Submit(For(absl::Seconds(1))).Get().status.code(), absl::StatusCode::kUnavailable);
}

// Cancels and stops at random points never lose the slot.
TEST_F(SessionTest, SurvivesAHundredRandomEnds) {
  Make({&a_, &b_});
  std::vector<Pending> pending;
  for (int i = 0; i < 100; ++i) {
    pending.push_back(Submit(For(absl::Milliseconds(i % 3 == 0 ? 1 : 100000), std::to_string(i))));
    for (int spin = (i * 7919) % 1000; spin > 0; --spin) std::this_thread::yield();
    if (i % 3 == 1) {
      manager_->Cancel(pending.back().ticket);
    } else if (i % 3 == 2) {
      while (!manager_->Stop(std::to_string(i)).has_value() && !pending.back().Ready()) {
        std::this_thread::yield();
      }
    }
  }
  for (Pending& one : pending) one.Get();
  EXPECT_TRUE(Submit(For(absl::Milliseconds(1))).Get().status.ok());
}

}  // namespace
}  // namespace jobscope
