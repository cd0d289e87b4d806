// SPDX-License-Identifier: Apache-2.0
//
// Tests windows, threads and steps: which events of a process belong to a session.
#include "collectors/host/host_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdint>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectors/host/host_report.h"
#include "tests/collectors/host/host_collector_fixture.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

TEST_F(HostCollectorTest, MapsTicksExactly) {
  Begin();
  recorder_.Scope(1, kPlain, kZero + 10, kZero + 25);
  End(100);
  session_.ExpectIdentity();
  const ReadEvent event = session_.One("plain");
  EXPECT_EQ(event.start_ps, 10'000);
  EXPECT_EQ(event.duration_ps, 15'000);
  EXPECT_EQ(event.line, "main/101");
  EXPECT_EQ(event.line_id, 101);
  EXPECT_THAT(event.metadata_texts, Contains(Pair("source", "file.cc:7")));
}

TEST_F(HostCollectorTest, ClipsAtBothEdges) {
  Begin();
  recorder_.Scope(1, kPlain, kZero - 20, kZero - 1, 1);     // before
  recorder_.Scope(1, kPlain, kZero - 20, kZero + 5, 1);     // over the start
  recorder_.Scope(1, kPlain, kZero + 90, kZero + 130, 1);   // over the end
  recorder_.Scope(1, kPlain, kZero + 101, kZero + 140, 1);  // after
  recorder_.Scope(1, kPlain, kZero - 30, kZero + 150, 0);   // over both
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().attempted, 5u);
  EXPECT_EQ(session_.report().outside, 2u);
  const std::vector<ReadEvent> events = session_.Named("plain");
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].start_ps, 0);
  EXPECT_EQ(events[0].duration_ps, 100'000);
  EXPECT_THAT(events[0].ints, Contains(Pair("true_start_ns", -30)));
  EXPECT_THAT(events[0].ints, Contains(Pair("true_end_ns", 150)));
  EXPECT_EQ(events[1].start_ps, 0);
  EXPECT_EQ(events[1].duration_ps, 5'000);
  EXPECT_THAT(events[1].ints, Contains(Pair("true_start_ns", -20)));
  EXPECT_THAT(events[1].ints, Not(Contains(Key("true_end_ns"))));
  EXPECT_EQ(events[2].start_ps, 90'000);
  EXPECT_EQ(events[2].duration_ps, 10'000);
  EXPECT_THAT(events[2].ints, Contains(Pair("truncated", 1)));
  EXPECT_THAT(events[2].ints, Contains(Pair("true_end_ns", 130)));
}

TEST_F(HostCollectorTest, WhatEndedJustNowWaits) {
  Begin();
  const uint64_t now = session_.Now();
  recorder_.Scope(1, kPlain, kZero, now - 1'000'000'000);
  recorder_.Scope(1, kPlain, now, now + 3'600'000'000'000);  // ends in an hour: after the Drain
  session_.Drain();
  session_.StopAt(now - 1);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().events, 1u);
  EXPECT_EQ(session_.report().outside, 1u) << "it was not encoded before the end was known";
}

TEST_F(HostCollectorTest, AReusedThreadIdContinuesItsLine) {
  Begin();
  for (uint64_t serial = 2; serial < 5; ++serial) {
    Thread(serial).tid = 200;
    Thread(serial).name = serial == 4 ? "second life" : "first life";
    recorder_.Scope(serial, kPlain, kZero + 10 * serial, kZero + 10 * serial + 5);
    Thread(serial).ended = true;
    session_.Drain();
    EXPECT_TRUE(Thread(serial).released);
  }
  session_.Drain();  // they stay listed, and are not read again
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().attempted, 3u);
  const std::vector<ReadEvent> events = session_.Named("plain");
  ASSERT_EQ(events.size(), 3u);
  for (const ReadEvent& event : events) {
    EXPECT_EQ(event.line_id, 200);
    EXPECT_EQ(event.line, "second life/200");
  }
  ASSERT_EQ(session_.report().threads.size(), 1u);
  EXPECT_EQ(session_.report().threads[0].attempted, 3u);
}

TEST_F(HostCollectorTest, OpenScopesThatEndMeanwhileAppearOnce) {
  Begin();
  Thread(1).open = {{kPlain, 0, kZero + 10, 0, 0}, {kPlain, 1, kZero + 20, 0, 0}};
  recorder_.Scope(1, kPlain, kZero + 20, kZero + 90, 1);  // ended between the sample and the heads
  End(100);
  session_.ExpectIdentity();
  const std::vector<ReadEvent> events = session_.Named("plain");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].start_ps, 10'000);
  EXPECT_EQ(events[0].end_ps(), 100'000);
  EXPECT_THAT(events[0].ints, Contains(Pair("truncated", 1)));
  EXPECT_EQ(events[1].end_ps(), 90'000);
  EXPECT_THAT(events[1].ints, Not(Contains(Key("truncated"))));
}

TEST_F(HostCollectorTest, AStepWithoutASampleIsShownByItsBegin) {
  Begin();
  recorder_.step_count = 1;
  recorder_.step_source = kStep;
  recorder_.Add(1, JOBSCOPE_KIND_STEP_BEGIN, kStep, kZero + 40, kZero + 40, 0, 12,
                JOBSCOPE_ARG_INT64);
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().attempted, 1u);
  EXPECT_EQ(session_.report().steps, 0u);
  const ReadEvent step = session_.One("scope/train");
  EXPECT_EQ(step.start_ps, 40'000);
  EXPECT_EQ(step.end_ps(), 100'000);
  EXPECT_THAT(step.ints, Contains(Pair("clipped_step", 12)));
}

TEST_F(HostCollectorTest, OnlyStepsOfTheSourceCount) {
  constexpr uint32_t kEval = 20;
  constexpr uint32_t kInferred = 21;
  recorder_.sites[kEval] = {"eval", "", "", 0, JOBSCOPE_BIT_STEP, JOBSCOPE_ROLE_STEP, {}};
  recorder_.sites[kInferred] = {"batch", "", "", 0, JOBSCOPE_BIT_STEP, JOBSCOPE_ROLE_INFERRED_STEP,
                                {}};
  const auto step = [this](uint32_t site, uint64_t begin, uint64_t end, uint8_t depth = 0) {
    recorder_.Add(1, JOBSCOPE_KIND_STEP, site, kZero + begin, kZero + end, depth, begin,
                  JOBSCOPE_ARG_INT64);
  };
  Begin();
  recorder_.step_count = 1;
  recorder_.step_source = kInferred;
  step(kInferred, 10, 20);
  session_.Drain();
  recorder_.step_count = 3;  // the program marks its steps from now on
  recorder_.step_source = kStep;
  step(kEval, 32, 38, 1);
  step(kStep, 30, 40);
  step(kStep, 40, 50);
  step(kEval, 50, 60);
  step(kEval, 60, 70);
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().steps, 2u);
  EXPECT_EQ(session_.Named("eval").size(), 3u);
}

TEST_F(HostCollectorTest, WithoutAStepSourceStepsAreNotKnown) {
  Begin();
  End(100);
  EXPECT_FALSE(session_.report().steps.has_value());
}

TEST_F(HostCollectorTest, StepWindowRebasesTheZero) {
  session_.set_steps(StepRange{5, 6});
  ASSERT_TRUE(session_.Arm().ok());
  ASSERT_TRUE(session_.StartAt(kZero).ok());
  EXPECT_EQ(recorder_.masks[JOBSCOPE_HOLDER_SESSION],
            JOBSCOPE_BIT_STEP | JOBSCOPE_BIT_INPUT_WAIT | JOBSCOPE_BIT_STEP_USAGE);
  recorder_.Scope(1, kPlain, kZero + 1, kZero + 2);  // while it waits: not of the session
  session_.Drain();
  recorder_.step_count = 2;
  recorder_.step_source = kStep;
  recorder_.trigger = {JOBSCOPE_TRIGGER_OPEN, 5, 0, kZero + 1000, 0};
  recorder_.Add(1, JOBSCOPE_KIND_STEP_BEGIN, kStep, kZero + 1000, kZero + 1000, 0, 5,
                JOBSCOPE_ARG_INT64);
  session_.Drain();
  EXPECT_EQ(session_.events.opened, kZero + 1000);
  EXPECT_FALSE(session_.events.closed.has_value());
  recorder_.Add(1, JOBSCOPE_KIND_STEP, kStep, kZero + 1000, kZero + 1100, 0, 5, JOBSCOPE_ARG_INT64);
  recorder_.Add(1, JOBSCOPE_KIND_STEP_BEGIN, kStep, kZero + 1200, kZero + 1200, 0, 6,
                JOBSCOPE_ARG_INT64);
  recorder_.Add(1, JOBSCOPE_KIND_STEP, kStep, kZero + 1200, kZero + 1300, 0, 6, JOBSCOPE_ARG_INT64);
  recorder_.trigger = {JOBSCOPE_TRIGGER_CLOSED, 5, 6, kZero + 1000, kZero + 1300};
  recorder_.Scope(1, kPlain, kZero + 1301, kZero + 1400);
  session_.Drain();
  EXPECT_EQ(session_.events.closed, kZero + 1300);
  session_.StopAt(kZero + 1300);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().attempted, 5u) << "two steps, their marks, and what came later";
  EXPECT_EQ(session_.report().outside, 1u);
  EXPECT_EQ(session_.report().steps, 2u);
  const std::vector<ReadEvent> steps = session_.Named("train");
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].start_ps, 0);
  EXPECT_EQ(steps[1].start_ps, 200'000);
  EXPECT_EQ(recorder_.masks[JOBSCOPE_HOLDER_SESSION], 0u);
  EXPECT_EQ(recorder_.trigger.state, static_cast<uint32_t>(JOBSCOPE_TRIGGER_IDLE));
}

TEST_F(HostCollectorTest, OldestTicksIsTheEndOfTheOldestEventHeld) {
  session_.request().lookback = absl::Seconds(1);
  collector_.SetAlwaysOn(true);
  ASSERT_TRUE(session_.Arm().ok());
  const uint64_t since = collector_.OldestTicks();
  EXPECT_LE(since, session_.Now());
  session_.Stop();

  const uint64_t later = session_.Now() + 1000;
  for (int i = 0; i < 4; ++i) recorder_.Scope(1, kPlain, later + 10 * i, later + 10 * i + 5);
  Thread(1).overwritten_events = 2;
  SessionDriver second(&collector_, /*uses_tsc=*/false);
  second.request().lookback = absl::Seconds(1);
  ASSERT_TRUE(second.Arm().ok());
  EXPECT_EQ(collector_.OldestTicks(), later + 25);
  second.Stop();
  collector_.SetAlwaysOn(false);
}

TEST_F(HostCollectorTest, ThreadsWithoutARingHaveNotLostOne) {
  Thread(2).tid = 102;
  Thread(2).has_ring = false;
  Thread(4).tid = 104;  // there was a third
  Begin();
  End(100);
  EXPECT_THAT(session_.report().warnings,
              Contains(HasSubstr("1 threads ended before the capture")));
}

// The kernel keeps 15 bytes of a name, and cuts it wherever that is.
TEST_F(HostCollectorTest, ANameThatIsNoUtf8CostsNothingElse) {
  Thread(1).name = "\xe6\x95\xb0\xe6\x8d\xae\xe5\x8a\xa0\xe8\xbd\xbd\xe5\x99";
  Begin();
  recorder_.Scope(1, kPlain, kZero + 10, kZero + 20);
  End(100);  // reads the trace
  session_.ExpectIdentity();
  EXPECT_EQ(session_.One("plain").line, "\xe6\x95\xb0\xe6\x8d\xae\xe5\x8a\xa0\xe8\xbd\xbd?\?/101");
  ASSERT_EQ(session_.report().threads.size(), 1u);
  const auto losses = session_.Items<v1::Loss>(xspace::ItemKind::kLoss);
  ASSERT_EQ(losses.size(), 1u);
  EXPECT_EQ(losses[0].threads(0).in_trace(), 1u);
}

TEST_F(HostCollectorTest, WhatStepsAreInferredFromIsText) {
  recorder_.sites[kStep] = {"jit(\xc3\xa9\xc3",          "", "", 0, JOBSCOPE_BIT_STEP,
                            JOBSCOPE_ROLE_INFERRED_STEP, {}};
  recorder_.step_source = kStep;
  EXPECT_EQ(host::StepsInferredFrom(*recorder_.table()), "jit(\xc3\xa9?");
  recorder_.sites[kStep].role = JOBSCOPE_ROLE_STEP;
  EXPECT_EQ(host::StepsInferredFrom(*recorder_.table()), "");
}

TEST_F(HostCollectorTest, ThreadsOfOursGetNoRings) {
  // Arms with `count` threads of this name beside it.
  const auto prefaulted = [this](const char* name, int count) {
    std::promise<void> end;
    const std::shared_future<void> ended = end.get_future().share();
    std::vector<std::thread> threads;
    std::vector<std::future<void>> named;
    for (int i = 0; i < count; ++i) {
      std::promise<void> promise;
      named.push_back(promise.get_future());
      threads.emplace_back([name, ended, promise = std::move(promise)]() mutable {
        pthread_setname_np(pthread_self(), name);
        promise.set_value();
        ended.wait();
      });
    }
    for (std::future<void>& one : named) one.wait();
    SessionDriver driver(&collector_, /*uses_tsc=*/false);
    EXPECT_TRUE(driver.Arm().ok());
    const uint32_t rings = recorder_.prefaulted;
    driver.Stop();
    end.set_value();
    for (std::thread& thread : threads) thread.join();
    return rings;
  };
  const uint32_t with_one = prefaulted("worker", 1);  // the first may bring a sanitizer's own along
  EXPECT_EQ(prefaulted("jobscope-collec", 5), with_one - 1);
  EXPECT_EQ(prefaulted("worker", 6), with_one + 5);
}

TEST_F(HostCollectorTest, ArmReadiesRingsAndStopGivesThemBack) {
  ASSERT_TRUE(session_.Arm().ok());
  EXPECT_TRUE(recorder_.holding);
  EXPECT_GE(recorder_.prefaulted, 8u);
  EXPECT_LE(recorder_.prefaulted, 32u);
  ASSERT_TRUE(session_.StartAt(kZero).ok());
  EXPECT_NE(recorder_.masks[JOBSCOPE_HOLDER_SESSION] & JOBSCOPE_BIT_LEVEL3, 0u);
  End(100);
  EXPECT_FALSE(recorder_.holding);
  EXPECT_EQ(recorder_.masks[JOBSCOPE_HOLDER_SESSION], 0u);
}

TEST_F(HostCollectorTest, ArmThatRunsOutOfMemoryGivesRingsBack) {
  session_.request().lookback = absl::Seconds(1);
  int failed = 0;
  const auto runs_out = [&] {
    recorder_.totals_until_no_memory = failed;
    try {
      EXPECT_TRUE(session_.Arm().ok());
      return false;
    } catch (const std::bad_alloc&) {
      return true;
    }
  };
  while (runs_out()) {
    ++failed;
    EXPECT_FALSE(recorder_.holding) << failed;
  }
  EXPECT_GT(failed, 1);
  EXPECT_TRUE(recorder_.holding);
}

TEST(HostCollectorWithoutRecorderTest, IsOffAndSaysWhy) {
  HostCollector collector(nullptr);
  EXPECT_EQ(collector.Describe().state, CollectorState::kOff);
  EXPECT_THAT(collector.Describe().reason, HasSubstr("libjobscope_trace.so"));
  collector.SetAlwaysOn(true);
  EXPECT_TRUE(collector.WatchesSteps()) << "a capture of steps is refused with its reason";
  ArmRequest request;
  EXPECT_FALSE(collector.Arm(request).ok());
  EXPECT_EQ(collector.Report().state, CollectorState::kOff);
}

}  // namespace
}  // namespace jobscope
