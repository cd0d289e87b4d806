// SPDX-License-Identifier: Apache-2.0
//
// Providers that come and go: unregistered, before, between and within their callbacks; threads and
// children that end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "collectors/provider/provider_collector.h"
#include "tests/collectors/host/session_driver.h"
#include "tests/collectors/provider/fake_provider.h"
#include "tests/collectors/provider/provider_fixture.h"

namespace jobscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using ProviderLifeTest = ProviderTest;

TEST_F(ProviderLifeTest, OffWhenUnregisteredOrNotAskedFor) {
  SessionDriver driver(&collector_, kMonotonic);
  driver.request().recording.frameworks = *FrameworkChoice::Parse("none");
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  const CollectorReport& report = driver.Stop();
  EXPECT_EQ(report.state, CollectorState::kOff);
  EXPECT_THAT(report.reason, HasSubstr("none"));
  EXPECT_THAT(provider_.calls(), IsEmpty());

  EXPECT_EQ(collector_.Register(provider_.callbacks()).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(collector_.Unregister().ok());
  EXPECT_EQ(collector_.Unregister().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(collector_.Describe().state, CollectorState::kOff);
  SessionDriver second(&collector_, kMonotonic);
  ASSERT_TRUE(second.Arm().ok());
  ASSERT_TRUE(second.Start().ok());
  EXPECT_EQ(second.Stop().state, CollectorState::kOff);
  EXPECT_THAT(provider_.calls(), IsEmpty());

  EXPECT_TRUE(collector_.Register(provider_.callbacks()).ok());
  SessionDriver third(&collector_, kMonotonic);
  third.request().recording.frameworks = *FrameworkChoice::Parse("other,disk");
  ASSERT_TRUE(third.Arm().ok());
  ASSERT_TRUE(third.Start().ok());
  EXPECT_EQ(third.Stop().state, CollectorState::kOn);
}

TEST_F(ProviderLifeTest, UnregisteredDuringTheSessionItIsStoppedOnce) {
  KeepSink();
  provider_.On("stop", [](const jobscope_provider_session& session) {
    EXPECT_GT(session.end_monotonic_ns, session.begin_monotonic_ns);
    const jobscope_provider_event event = Span("last", session.begin_monotonic_ns, 1);
    EXPECT_EQ(session.sink->add(session.sink, &event, 1), 0);
  });
  SessionDriver driver(&collector_, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  EXPECT_TRUE(collector_.Unregister().ok());
  EXPECT_THAT(provider_.calls(), ElementsAre("arm", "start", "stop"));
  EXPECT_EQ(Add({Span("late", 0, 1)}), JOBSCOPE_E_STATE);
  const CollectorReport& report = driver.Stop();
  EXPECT_EQ(report.state, CollectorState::kDegraded);
  EXPECT_THAT(report.reason, HasSubstr("unregistered"));
  driver.One("last");
  EXPECT_THAT(provider_.calls(), ElementsAre("arm", "start", "stop"));
}

// One that takes itself out while it is called: its stop is not called, and nobody takes its place
// in this session.
TEST_F(ProviderLifeTest, UnregisteredByItsOwnCallback) {
  FakeProvider next;
  provider_.On("start", [&](const jobscope_provider_session& session) {
    const jobscope_provider_event event = Span("given", session.begin_monotonic_ns, 1);
    EXPECT_EQ(session.sink->add(session.sink, &event, 1), 0);
    EXPECT_EQ(collector_.Unregister().code(), absl::StatusCode::kUnavailable);
  });
  SessionDriver driver(&collector_, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  EXPECT_TRUE(collector_.Register(next.callbacks()).ok());
  const CollectorReport& report = driver.Stop();
  EXPECT_EQ(report.state, CollectorState::kDegraded);
  EXPECT_THAT(report.reason, HasSubstr("unregistered"));
  driver.ExpectIdentity();
  driver.One("given");
  EXPECT_THAT(provider_.calls(), ElementsAre("arm", "start"));
  EXPECT_THAT(next.calls(), IsEmpty());

  SessionDriver second(&collector_, kMonotonic);
  ASSERT_TRUE(second.Arm().ok());
  ASSERT_TRUE(second.Start().ok());
  EXPECT_EQ(second.Stop().state, CollectorState::kOn);
  EXPECT_THAT(next.calls(), ElementsAre("arm", "start", "stop"));
}

TEST_F(ProviderLifeTest, WhatAFailedStartGaveStays) {
  ProviderCallbacks callbacks;
  callbacks.start = [](void*, const jobscope_provider_session* session, char*, size_t) {
    const jobscope_provider_event event = Span("given", session->begin_monotonic_ns, 1);
    return session->sink->add(session->sink, &event, 1) == 0 ? 5 : 6;
  };
  ProviderCollector collector("b", 0);
  ASSERT_TRUE(collector.Register(callbacks).ok());
  SessionDriver driver(&collector, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  EXPECT_THAT(std::string(driver.Start().message()), HasSubstr("code 5"));
  const CollectorReport report = collector.Report();
  EXPECT_EQ(report.attempted, 1u);
  EXPECT_EQ(report.events, 1u);
}

// As Python does it while it shuts down, with a callback that wants its lock.
TEST_F(ProviderLifeTest, ACallbackThatEndsItsThreadIsNoMore) {
  provider_.On("start", [](const jobscope_provider_session&) { pthread_exit(nullptr); });
  SessionDriver driver(&collector_, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  std::thread([&] { (void)driver.Start(); }).join();
  EXPECT_TRUE(collector_.Unregister().ok());
  EXPECT_TRUE(collector_.Register(provider_.callbacks()).ok());
}

TEST_F(ProviderLifeTest, UnregisterDoesNotWaitForACallbackForever) {
  provider_.HangIn("arm");
  SessionDriver driver(&collector_, kMonotonic);
  std::thread session([&] { (void)driver.Arm(); });
  ASSERT_TRUE(provider_.AwaitCall("arm"));
  EXPECT_EQ(collector_.Unregister().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(collector_.Register(provider_.callbacks()).code(), absl::StatusCode::kAlreadyExists);
  provider_.Release();
  session.join();
  EXPECT_TRUE(collector_.Register(provider_.callbacks()).ok());
}

TEST_F(ProviderLifeTest, UnregisterFromItsOwnCallbackIsReported) {
  absl::Status reported;
  provider_.On("stop", [&](const jobscope_provider_session& /*session*/) {
    reported = collector_.Unregister();
  });
  SessionDriver driver(&collector_, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  driver.Stop();
  EXPECT_EQ(reported.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(collector_.Describe().state, CollectorState::kOff);
}

TEST_F(ProviderLifeTest, AStopWithoutAStart) {
  SessionDriver driver(&collector_, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  EXPECT_TRUE(collector_.Stop(driver.Now()).ok());
  EXPECT_EQ(collector_.Report().events, 0u);
  EXPECT_THAT(provider_.calls(), ElementsAre("arm", "stop"));
}

// Whatever other threads of the parent held at the fork: the child gets an answer.
TEST_F(ProviderLifeTest, AForkedChildAddsNothing) {
  KeepSink();
  SessionDriver driver(&collector_, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = Add({Span("child", session_.begin_monotonic_ns, 1)}) == JOBSCOPE_E_STATE;
    _exit(refused && collector_.Unregister().ok() ? 7 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_THAT(provider_.calls(), ElementsAre("arm", "start"));
  EXPECT_EQ(driver.Stop().attempted, 0u);
}

}  // namespace
}  // namespace jobscope
