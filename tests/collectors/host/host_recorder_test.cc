// SPDX-License-Identifier: Apache-2.0
//
// Tests the host collector with the real recorder: the trace contains what a program records.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/collectors/host/host_recorder_fixture.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

TEST_F(HostRecorderTest, ScopesNestAndCarryTheirArguments) {
  SessionDriver session(&collector_, uses_tsc());
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  {
    JOBSCOPE_SCOPE("outer");
    for (int i = 0; i < 3; ++i) {
      JOBSCOPE_SCOPE("inner", "index", i, "share", 0.5, "file", std::string("data.bin"));
    }
    JOBSCOPE_INSTANT("checkpoint");
  }
  session.Stop();
  session.ExpectIdentity();
  EXPECT_EQ(session.report().events, 5u);
  EXPECT_TRUE(session.report().lost_by_cause.empty());

  const ReadEvent outer = session.One("outer");
  EXPECT_EQ(outer.plane, "/host:CPU");
  EXPECT_EQ(outer.line_id, Tid());
  EXPECT_THAT(outer.line, testing::EndsWith("/" + std::to_string(Tid())));
  EXPECT_THAT(outer.texts, Contains(Pair("tf_op", "outer:Scope")));
  EXPECT_THAT(outer.metadata_texts, Contains(Pair("source", HasSubstr("host_recorder_test.cc:"))));
  const std::vector<ReadEvent> inner = session.Named("inner");
  ASSERT_EQ(inner.size(), 3u);
  for (size_t i = 0; i < inner.size(); ++i) {
    EXPECT_TRUE(outer.Contains(inner[i]));
    EXPECT_THAT(inner[i].ints, Contains(Pair("index", static_cast<int64_t>(i))));
    EXPECT_THAT(inner[i].doubles, Contains(Pair("share", 0.5)));
    EXPECT_THAT(inner[i].texts, Contains(Pair("file", "data.bin")));
  }
  EXPECT_TRUE(outer.Contains(session.One("checkpoint")));
}

TEST_F(HostRecorderTest, StepsAreRootsAndWaitsAreInput) {
  SessionDriver session(&collector_, uses_tsc());
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  for (int step = 7; step < 10; ++step) {
    Step(step, [] {
      { JOBSCOPE_INPUT_WAIT("loader"); }
      { JOBSCOPE_SCOPE("train_epoch"); }
    });
  }
  session.Stop();
  session.ExpectIdentity();
  EXPECT_EQ(session.report().steps, 3u);
  const std::vector<ReadEvent> steps = session.Named("train");
  ASSERT_EQ(steps.size(), 3u);
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_THAT(steps[i].ints, Contains(Pair("_r", 1)));
    EXPECT_THAT(steps[i].ints, Contains(Pair("step_num", static_cast<int64_t>(7 + i))));
    EXPECT_TRUE(steps[i].Contains(session.Named("IteratorGetNext loader")[i]));
    const ReadEvent child = session.Named("scope/train_epoch")[i];
    EXPECT_EQ(child.display_name, "train_epoch");
    EXPECT_TRUE(steps[i].Contains(child));
  }
}

TEST_F(HostRecorderTest, ScopesOpenAtStopReachToTheEnd) {
  SessionDriver session(&collector_, uses_tsc());
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  uint64_t end = 0;
  Step(5, [&] {
    JOBSCOPE_SCOPE("all_reduce");
    { JOBSCOPE_SCOPE("done"); }
    end = session.Now();
    session.StopAt(end);
  });
  session.ExpectIdentity();
  EXPECT_EQ(session.report().events, 3u);
  EXPECT_EQ(session.report().steps, 0u);
  const ReadEvent hung = session.One("all_reduce");
  EXPECT_THAT(hung.ints, Contains(Pair("truncated", 1)));
  EXPECT_EQ(hung.end_ps(), session.map().ToPs(end));
  const ReadEvent step = session.One("scope/train");
  EXPECT_THAT(step.ints, Contains(Pair("clipped_step", 5)));
  EXPECT_THAT(step.ints, Not(Contains(Key("_r"))));
  EXPECT_TRUE(step.Contains(hung));
  EXPECT_TRUE(hung.Contains(session.One("done")));
}

TEST_F(HostRecorderTest, ALevelTakesWhatIsBelowIt) {
  for (const int level : {1, 2, 3}) {
    SessionDriver session(&collector_, uses_tsc());
    session.request().recording.host_tracer_level = level;
    ASSERT_TRUE(session.Arm().ok());
    ASSERT_TRUE(session.Start().ok());
    { JOBSCOPE_SCOPE_COARSE("coarse"); }
    { JOBSCOPE_SCOPE_AT(1, "one"); }
    { JOBSCOPE_SCOPE_AT(2, "two"); }
    { JOBSCOPE_SCOPE_AT(3, "three"); }
    session.Stop();
    session.ExpectIdentity();
    EXPECT_EQ(session.report().events, static_cast<uint64_t>(level + 1));
  }
}

TEST_F(HostRecorderTest, LevelZeroIsOff) {
  SessionDriver session(&collector_, uses_tsc());
  session.request().recording.host_tracer_level = 0;
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  { JOBSCOPE_SCOPE("nobody"); }
  session.Stop();
  EXPECT_EQ(session.report().state, CollectorState::kOff);
  EXPECT_EQ(session.report().reason, "host_tracer_level is 0");
  EXPECT_EQ(session.report().attempted, 0u);
  EXPECT_TRUE(session.events_read().empty());
}

TEST_F(HostRecorderTest, CountersAreSamplesOfTheirOwnLine) {
  SessionDriver session(&collector_, uses_tsc());
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  for (int i = 0; i < 4; ++i) JOBSCOPE_COUNTER("loss", 1.5 * i);
  JOBSCOPE_COUNTER("queue", 17);
  std::thread([] { JOBSCOPE_COUNTER("loss", 99.5); }).join();
  session.Stop();
  session.ExpectIdentity();
  const std::vector<ReadEvent> samples = session.Named("loss");
  ASSERT_EQ(samples.size(), 5u);
  for (const ReadEvent& sample : samples) {
    EXPECT_EQ(sample.line, "_counters_");
    EXPECT_THAT(sample.doubles, Contains(Key("loss")));
    EXPECT_EQ(sample.duration_ps, 1);
  }
  EXPECT_THAT(session.One("queue").ints, Contains(Pair("queue", 17)));
}

TEST_F(HostRecorderTest, AsyncOperationsSpanThreads) {
  SessionDriver session(&collector_, uses_tsc());
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  const AsyncId first = AsyncBegin("request");
  const AsyncId second = AsyncBegin("request");
  const AsyncId open = AsyncBegin("never_ends");
  std::thread([&] { AsyncEnd(first); }).join();
  AsyncEnd(second);
  session.Stop();
  session.ExpectIdentity();
  const std::vector<ReadEvent> requests = session.Named("request");
  ASSERT_EQ(requests.size(), 2u);
  for (const ReadEvent& request : requests) {
    EXPECT_EQ(request.plane, "/device:CUSTOM:async");
    EXPECT_THAT(request.ints, Contains(Key("async_id")));
    EXPECT_THAT(request.ints, Not(Contains(Key("truncated"))));
  }
  EXPECT_NE(requests[0].line_id, requests[1].line_id) << "they overlap";
  EXPECT_THAT(session.One("never_ends").ints,
              Contains(Pair("async_id", static_cast<int64_t>(open.value))));
  EXPECT_THAT(session.One("never_ends").ints, Contains(Pair("truncated", 1)));
}

TEST_F(HostRecorderTest, FlowsTieScopesOfTwoThreads) {
  SessionDriver session(&collector_, uses_tsc());
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  Flow flow{};
  Flow loose{};
  {
    JOBSCOPE_SCOPE("producer");
    { JOBSCOPE_SCOPE("before"); }
    flow = FlowOut();
    { JOBSCOPE_SCOPE("after"); }
  }
  loose = FlowOut();
  std::thread([&] {
    JOBSCOPE_SCOPE("consumer");
    FlowIn(flow);
  }).join();
  session.Stop();
  session.ExpectIdentity();
  const auto id = static_cast<int64_t>(flow.value);
  EXPECT_THAT(session.One("producer").ints, Contains(Pair("_p", id)));
  EXPECT_THAT(session.One("producer").ints, Contains(Pair("_pt", 0)));
  EXPECT_THAT(session.One("consumer").ints, Contains(Pair("_c", id)));
  EXPECT_THAT(session.One("consumer").ints, Contains(Pair("_ct", 0)));
  EXPECT_THAT(session.One("before").ints, Not(Contains(Key("_p"))));
  EXPECT_THAT(session.One("after").ints, Not(Contains(Key("_p"))));
  // Four scopes, and the flow that nothing was open around.
  ASSERT_EQ(session.events_read().size(), 5u);
  int alone = 0;
  for (const ReadEvent& event : session.events_read()) {
    const auto producer = event.ints.find("_p");
    if (producer == event.ints.end() || producer->second == id) continue;
    EXPECT_EQ(producer->second, static_cast<int64_t>(loose.value));
    ++alone;
  }
  EXPECT_EQ(alone, 1);
}

TEST_F(HostRecorderTest, AFloodIsAccountedForExactly) {
  SessionDriver session(&collector_, uses_tsc());
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  constexpr int kThreads = 3;
  constexpr uint64_t kEvents = 200'000;
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kEvents; ++i) {
        if (i % 3 == 0) {
          JOBSCOPE_SCOPE("with_arguments", "i", i, "text", "some words");
        } else {
          JOBSCOPE_SCOPE("plain");
        }
      }
      --running;
    });
  }
  while (running > 0) session.Drain();
  for (std::thread& thread : threads) thread.join();
  session.Drain();
  session.Stop();
  session.ExpectIdentity();
  EXPECT_EQ(session.report().attempted, kThreads * kEvents);
  EXPECT_EQ(session.report().outside, 0u);
  EXPECT_GT(session.report().events, 0u);
  EXPECT_EQ(session.report().threads.size(), static_cast<size_t>(kThreads));
}

TEST_F(HostRecorderTest, WhatARingOverwroteIsLostExactly) {
  SessionDriver session(&collector_, uses_tsc());
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  const uint64_t events = 2 * reader()->ring_records;
  for (uint64_t i = 0; i < events; ++i) {
    JOBSCOPE_SCOPE("many");
  }
  session.Stop();
  session.ExpectIdentity();
  EXPECT_EQ(session.report().attempted, events);
  EXPECT_GE(session.report().lost_by_cause.at(LossCause::kOverwritten),
            events - reader()->ring_records);
  EXPECT_EQ(session.report().lost_by_cause.size(), 1u);
  const auto losses = session.Items<v1::Loss>(xspace::ItemKind::kLoss);
  ASSERT_EQ(losses.size(), 1u);
  EXPECT_EQ(losses[0].collector(), "host");
  ASSERT_EQ(losses[0].threads_size(), 1);
  EXPECT_EQ(losses[0].threads(0).tid(), Tid());
  EXPECT_EQ(losses[0].threads(0).lost(),
            session.report().lost_by_cause.at(LossCause::kOverwritten));
}

TEST_F(HostRecorderTest, AFullStoreStopsTheDrainAndIsAccountedForExactly) {
  SessionDriver session(&collector_, uses_tsc(), /*store_bytes=*/1 << 20);
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  constexpr uint64_t kRounds = 20;
  constexpr uint64_t kEvents = 10'000;
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (uint64_t i = 0; i < kEvents; ++i) {
      JOBSCOPE_SCOPE("filler", "i", i);
    }
    while (session.Drain() == absl::ZeroDuration()) {
    }
  }
  std::thread([] { JOBSCOPE_SCOPE("after_it_was_full"); }).join();
  session.Drain();
  session.Stop();
  session.ExpectIdentity();
  EXPECT_EQ(session.report().attempted, kRounds * kEvents + 1);
  EXPECT_GT(session.report().events, 10'000u);
  ASSERT_THAT(session.report().lost_by_cause, Contains(Key(LossCause::kStoreFull)));
  EXPECT_EQ(session.report().lost_by_cause.size(), 1u) << "one cause: the store";
  EXPECT_THAT(session.report().warnings, Contains(HasSubstr("no room for events")));
}

TEST_F(HostRecorderTest, ThreadsThatComeAndGoAreComplete) {
  SessionDriver session(&collector_, uses_tsc());
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  constexpr int kThreads = 40;
  for (int i = 0; i < kThreads; ++i) {
    std::thread([&] {
      SetThreadName("worker");
      JOBSCOPE_SCOPE("short_lived");
    }).join();
    if (i % 7 == 0) session.Drain();
  }
  session.Stop();
  session.ExpectIdentity();
  EXPECT_EQ(session.Named("short_lived").size(), static_cast<size_t>(kThreads));
  for (const ReadEvent& event : session.Named("short_lived")) {
    EXPECT_EQ(event.line, "worker/" + std::to_string(event.line_id));
  }
}

TEST_F(HostRecorderTest, SessionsFollowEachOther) {
  for (int i = 0; i < 3; ++i) {
    SessionDriver session(&collector_, uses_tsc());
    ASSERT_TRUE(session.Arm().ok());
    { JOBSCOPE_SCOPE("between"); }
    ASSERT_TRUE(session.Start().ok());
    { JOBSCOPE_SCOPE("within"); }
    session.Drain();
    session.Stop();
    session.ExpectIdentity();
    EXPECT_EQ(session.Named("within").size(), 1u);
    EXPECT_TRUE(session.Named("between").empty());
    EXPECT_EQ(reader()->mask(), 0u);
    EXPECT_GE(session.Items<v1::Clock>(xspace::ItemKind::kClock).size(), 2u);
  }
}

TEST_F(HostRecorderTest, ASessionThatEndsBeforeItsStartLeavesNothingOn) {
  SessionDriver session(&collector_, uses_tsc());
  ASSERT_TRUE(session.Arm().ok());
  session.Stop();
  EXPECT_EQ(session.report().attempted, 0u);
  EXPECT_EQ(reader()->mask(), 0u);
}

TEST_F(HostRecorderTest, WhatIsOnOutsideSessionsIsOnUntilItIsOff) {
  collector_.SetAlwaysOn(true);
  collector_.SetContinuous(2);
  EXPECT_EQ(reader()->mask(), JOBSCOPE_BIT_STEP | JOBSCOPE_BIT_INPUT_WAIT | JOBSCOPE_BIT_COARSE |
                                  JOBSCOPE_BIT_LEVEL1 | JOBSCOPE_BIT_LEVEL2);
  collector_.SetContinuous(std::nullopt);
  EXPECT_EQ(reader()->mask(), JOBSCOPE_BIT_STEP | JOBSCOPE_BIT_INPUT_WAIT | JOBSCOPE_BIT_COARSE);
  collector_.SetAlwaysOn(false);
  EXPECT_EQ(reader()->mask(), 0u);
}

}  // namespace
}  // namespace jobscope
