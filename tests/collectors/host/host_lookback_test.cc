// SPDX-License-Identifier: Apache-2.0
//
// Tests lookbacks, scopes that are open at the end, and recording while the store is full, with the
// real recorder and threads that record all the time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "collectors/host/host_collector.h"
#include "jobscope/trace.h"
#include "tests/collectors/host/host_recorder_fixture.h"
#include "tests/collectors/host/session_driver.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Pair;

using HostLookbackTest = HostRecorderTest;

// A thread that is inside of something, for as long as the test wants.
class HungThread {
 public:
  HungThread() : thread_([this] { Run(); }) { tid = inside_.get_future().get(); }
  ~HungThread() {
    leave_.set_value();
    thread_.join();
  }
  int64_t tid = 0;

 private:
  // It has completed nothing, ever: only what it is inside of tells of it.
  void Run() {
    JOBSCOPE_SCOPE_COARSE("checkpoint", "shard", 7);
    JOBSCOPE_INPUT_WAIT("loader");
    JOBSCOPE_SCOPE("not_always_on");
    inside_.set_value(Tid());
    leave_.get_future().wait();
  }

  std::promise<int64_t> inside_;
  std::promise<void> leave_;
  std::thread thread_;
};

TEST_F(HostLookbackTest, ADumpShowsWhatAHungThreadIsInsideOf) {
  collector_.SetAlwaysOn(true);
  const uint64_t on = Now();
  HungThread hung;
  SessionDriver session(&collector_, uses_tsc());
  session.request().lookback = absl::Seconds(10);
  ASSERT_TRUE(session.Arm().ok());
  EXPECT_LE(collector_.OldestTicks(), on);
  // Duration 0: the end is the start, and nothing drains in between.
  const uint64_t start = session.Now();
  ASSERT_TRUE(session.StartAt(on).ok());
  EXPECT_GE(collector_.RecordingSince(), start);
  session.StopAt(start);
  collector_.SetAlwaysOn(false);
  session.ExpectIdentity();

  const ReadEvent checkpoint = session.One("checkpoint");
  EXPECT_EQ(checkpoint.line_id, hung.tid);
  EXPECT_THAT(checkpoint.ints, Contains(Pair("truncated", 1)));
  EXPECT_EQ(checkpoint.end_ps(), session.map().ToPs(start));
  EXPECT_GT(checkpoint.start_ps, 0);
  const ReadEvent wait = session.One("IteratorGetNext loader");
  EXPECT_THAT(wait.ints, Contains(Pair("truncated", 1)));
  EXPECT_TRUE(checkpoint.Contains(wait));
  EXPECT_TRUE(session.Named("not_always_on").empty());
}

TEST_F(HostLookbackTest, AnOrdinarySessionShowsItTooFromItsStartOn) {
  collector_.SetAlwaysOn(true);
  HungThread hung;
  SessionDriver session(&collector_, uses_tsc());
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  session.Drain();
  session.Stop();
  collector_.SetAlwaysOn(false);
  session.ExpectIdentity();
  const ReadEvent checkpoint = session.One("checkpoint");
  EXPECT_THAT(checkpoint.ints, Contains(Pair("truncated", 1)));
  EXPECT_EQ(session.Named("IteratorGetNext loader").size(), 1u);
}

// Steps go on across the start, by a thread that knows nothing of it: each is there, and once.
TEST_F(HostLookbackTest, NoGapAndNoDuplicateAtTheSeam) {
  constexpr int64_t kBefore = 2000;
  constexpr int64_t kSteps = 6000;  // all of them fit into the ring: a step takes three records
  ASSERT_LT(3 * kSteps, static_cast<int64_t>(reader()->ring_records));
  collector_.SetAlwaysOn(true);
  const uint64_t on = Now();
  std::atomic<int64_t> done{0};
  std::thread trainer([&done] {
    for (int64_t i = 0; i < kSteps; ++i) {
      Step(i, [i] { JOBSCOPE_SCOPE_COARSE("work", "i", i); });
      done.store(i + 1);
    }
  });
  const auto await = [&done](int64_t steps) {
    while (done.load() < steps) std::this_thread::yield();
  };
  await(kBefore);
  SessionDriver session(&collector_, uses_tsc());
  session.request().lookback = absl::Seconds(100);
  ASSERT_TRUE(session.Arm().ok());
  const int64_t at_arm = done.load();
  await(std::min(kSteps, at_arm + 200));
  ASSERT_TRUE(session.StartAt(on).ok());
  while (done.load() < kSteps) session.Drain();
  trainer.join();
  session.Stop();
  collector_.SetAlwaysOn(false);
  session.ExpectIdentity();
  EXPECT_TRUE(session.report().lost_by_cause.empty());
  EXPECT_EQ(session.report().steps, static_cast<uint64_t>(kSteps));

  std::map<int64_t, int> steps;
  std::map<int64_t, int> works;
  for (const ReadEvent& event : session.events_read()) {
    if (event.name == "train") ++steps[event.ints.at("step_num")];
    if (event.name == "work") ++works[event.ints.at("i")];
  }
  ASSERT_EQ(steps.size(), static_cast<size_t>(kSteps));
  ASSERT_EQ(works.size(), static_cast<size_t>(kSteps));
  for (int64_t i = 0; i < kSteps; ++i) {
    ASSERT_EQ(steps[i], 1) << "step " << i;
    ASSERT_EQ(works[i], 1) << "step " << i;
  }
}

// Between Arm and Start rings go on turning: the window begins where they still hold everything,
// and the collector reports that to the session.
TEST_F(HostLookbackTest, TheWindowBeginsWhereTheRingsReachAtTheStart) {
  collector_.SetAlwaysOn(true);
  const uint64_t on = Now();
  { JOBSCOPE_SCOPE_COARSE("early"); }
  SessionDriver session(&collector_, uses_tsc());
  session.request().lookback = absl::Seconds(100);
  ASSERT_TRUE(session.Arm().ok());
  EXPECT_LE(collector_.OldestTicks(), on);
  for (uint32_t i = 0; i < 2 * reader()->ring_records; ++i) {
    JOBSCOPE_SCOPE_COARSE("filler");
  }
  ASSERT_TRUE(session.StartAt(on).ok());
  const uint64_t reached = collector_.OldestTicks();
  EXPECT_GT(reached, on);
  session.Stop();
  collector_.SetAlwaysOn(false);
  session.ExpectIdentity();
  EXPECT_TRUE(session.Named("early").empty());
  const std::vector<ReadEvent> filler = session.Named("filler");
  ASSERT_GT(filler.size(), reader()->ring_records / 2);
  for (const ReadEvent& event : filler) EXPECT_GE(event.start_ps, session.map().ToPs(reached));
}

TEST_F(HostLookbackTest, AStepWindowKeepsACommandedZeroAndTellsItsNumbers) {
  SessionDriver session(&collector_, uses_tsc());
  session.set_steps(StepRange{10'002, 10'004});
  session.set_keep_zero(true);
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  const uint64_t zero = session.map().zero_ticks();
  EXPECT_GE(collector_.RecordingSince(), zero);
  for (int step = 10'000; step < 10'008; ++step) {
    Step(step, [] {});
    session.Drain();
  }
  ASSERT_TRUE(session.events.opened.has_value());
  ASSERT_TRUE(session.events.closed.has_value());
  session.StopAt(*session.events.closed);
  session.ExpectIdentity();
  EXPECT_EQ(session.report().first_step, 10'002);
  EXPECT_EQ(session.report().last_step, 10'004);
  const std::vector<ReadEvent> steps = session.Named("train");
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].start_ps, session.map().ToPs(*session.events.opened)) << "not 0";
  EXPECT_GT(steps[0].start_ps, 0);
}

// The zero lies after the opening: a worker was there earlier than the client had thought.
TEST_F(HostLookbackTest, AStepThatBeginsBeforeTheZeroIsClipped) {
  // 50 ms of ticks of 1 ns, less of shorter ones. On a busy machine the step may come too late for
  // that: then again, with more time.
  uint64_t ahead = 50'000'000;
  for (int64_t number = 20'000; !HasFailure(); number += 10, ahead *= 4) {
    SessionDriver session(&collector_, uses_tsc());
    session.set_steps(StepRange{number, number + 1});
    session.set_keep_zero(true);
    ASSERT_TRUE(session.Arm().ok());
    const uint64_t zero = session.Now() + ahead;
    ASSERT_TRUE(session.StartAt(zero).ok());
    bool in_time = false;
    Step(number, [&] {
      in_time = session.Now() < zero;
      session.Drain();
      while (session.Now() < zero) std::this_thread::yield();
    });
    Step(number + 1, [] {});
    session.Drain();
    session.Stop();
    session.ExpectIdentity();
    EXPECT_EQ(session.report().first_step, number);
    if (!in_time) continue;
    EXPECT_EQ(session.report().steps, 1u) << "the clipped one is no whole step";
    const ReadEvent clipped = session.One("scope/train");
    EXPECT_EQ(clipped.start_ps, 0);
    EXPECT_THAT(clipped.ints, Contains(Pair("clipped_step", number)));
    return;
  }
}

// The wait for the first batch lies before the step that opens the window.
TEST_F(HostLookbackTest, AStepWindowBeginsWithTheWaitBeforeItsFirstStep) {
  for (const bool keep_zero : {false, true}) {
    collector_.SetAlwaysOn(true);
    SessionDriver session(&collector_, uses_tsc());
    session.set_steps(StepRange{40'002, 40'004});
    session.set_keep_zero(keep_zero);
    ASSERT_TRUE(session.Arm().ok());
    ASSERT_TRUE(session.Start().ok());
    uint64_t wait_begin = 0;
    for (int step = 40'000; step < 40'008; ++step) {
      if (step == 40'002) wait_begin = session.Now();
      {
        JOBSCOPE_INPUT_WAIT("loader");
        session.Drain();
      }
      session.Drain();  // must not pass over the wait
      Step(step, [] {});
      session.Drain();
    }
    ASSERT_TRUE(session.events.opened.has_value());
    ASSERT_TRUE(session.events.closed.has_value());
    EXPECT_GE(*session.events.opened, wait_begin);
    session.StopAt(*session.events.closed);
    collector_.SetAlwaysOn(false);
    session.ExpectIdentity();
    EXPECT_EQ(session.report().first_step, 40'002);
    EXPECT_EQ(session.report().steps, 3u);
    const std::vector<ReadEvent> steps = session.Named("train");
    const std::vector<ReadEvent> waits = session.Named("IteratorGetNext loader");
    ASSERT_EQ(steps.size(), 3u);
    ASSERT_EQ(waits.size(), 3u);
    for (size_t i = 0; i < steps.size(); ++i) {
      EXPECT_TRUE(steps[i].Contains(waits[i]));
      EXPECT_EQ(steps[i].start_ps, waits[i].start_ps);
    }
    if (!keep_zero) {
      EXPECT_EQ(steps[0].start_ps, 0);
    }
  }
}

// A commanded zero within the wait cuts the wait, and leaves the step whole: so many were asked
// for.
TEST_F(HostLookbackTest, AZeroWithinTheFirstWaitLeavesTheStepWhole) {
  bool begun_before_zero = false;  // on a busy machine at a later attempt
  for (uint64_t ahead_ticks = 20'000'000; !begun_before_zero; ahead_ticks *= 2) {
    collector_.SetAlwaysOn(true);
    SessionDriver session(&collector_, uses_tsc());
    session.set_steps(StepRange{50'000, 50'001});
    session.set_keep_zero(true);
    ASSERT_TRUE(session.Arm().ok());
    const uint64_t zero = session.Now() + ahead_ticks;
    ASSERT_TRUE(session.StartAt(zero).ok());
    {
      JOBSCOPE_INPUT_WAIT("loader");
      begun_before_zero = session.Now() < zero;
      while (session.Now() <= zero) std::this_thread::yield();
    }
    Step(50'000, [] {});
    Step(50'001, [] {});
    session.Drain();
    session.Stop();
    collector_.SetAlwaysOn(false);
    if (!begun_before_zero) continue;
    session.ExpectIdentity();
    EXPECT_EQ(session.report().steps, 2u);
    const std::vector<ReadEvent> steps = session.Named("train");
    ASSERT_EQ(steps.size(), 2u);
    EXPECT_EQ(steps[0].start_ps, 0);
    EXPECT_THAT(session.One("IteratorGetNext loader").ints, Contains(Pair("truncated", 1)));
  }
}

TEST_F(HostLookbackTest, AnOpenStepWindowTellsTheNewestStep) {
  SessionDriver session(&collector_, uses_tsc());
  session.set_steps(StepRange{30'001, 30'100});
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  for (int step = 30'000; step < 30'005; ++step) Step(step, [] {});
  session.Drain();
  session.Stop();
  EXPECT_EQ(session.report().first_step, 30'001);
  EXPECT_EQ(session.report().last_step, 30'004);

  SessionDriver never(&collector_, uses_tsc());
  never.set_steps(StepRange{1'000'000, 1'000'001});
  ASSERT_TRUE(never.Arm().ok());
  ASSERT_TRUE(never.Start().ok());
  Step(30'005, [] {});
  never.Drain();
  never.Stop();
  EXPECT_FALSE(never.report().first_step.has_value());
}

// A planned end holds, however late Stop comes and whatever was drained meanwhile.
TEST_F(HostLookbackTest, NothingIsInTheTraceFromAfterThePlannedEnd) {
  SessionDriver session(&collector_, uses_tsc());
  ASSERT_TRUE(session.Arm().ok());
  const uint64_t end = session.Now() + 50'000'000;
  session.set_planned_end(end);
  ASSERT_TRUE(session.Start().ok());
  std::promise<void> leave;
  std::promise<uint64_t> inside;
  std::thread ends_in_the_middle([&] {
    JOBSCOPE_SCOPE("thread");
    inside.set_value(session.Now());
    leave.get_future().wait();
  });
  const uint64_t inside_ticks = inside.get_future().get();
  // Without room in the ring nothing is held back.
  const auto fill = [&] {
    for (uint32_t i = 0; i < reader()->ring_records / 2; ++i) {
      JOBSCOPE_SCOPE("filler");
    }
    session.Drain();
  };
  fill();
  while (session.Now() <= end) fill();
  { JOBSCOPE_SCOPE("late"); }
  leave.set_value();
  ends_in_the_middle.join();
  fill();
  session.StopAt(session.Now());
  session.ExpectIdentity();
  EXPECT_TRUE(session.Named("late").empty());
  EXPECT_GE(session.report().outside, reader()->ring_records / 2);
  for (const ReadEvent& event : session.events_read()) {
    ASSERT_LE(event.end_ps(), session.map().ToPs(end));
  }
  if (inside_ticks < end) {  // on a slow machine the thread came too late to belong to it
    EXPECT_THAT(session.One("thread").ints, Contains(Pair("truncated", 1)));
  }
}

// The store is emptied now and then: events are taken again, and every one is accounted for.
TEST_F(HostLookbackTest, DrainsAgainWhenTheStoreHasRoom) {
  SessionDriver session(&collector_, uses_tsc(), /*store_bytes=*/1 << 20);
  ASSERT_TRUE(session.Arm().ok());
  ASSERT_TRUE(session.Start().ok());
  constexpr uint64_t kRounds = 60;
  constexpr uint64_t kEvents = 20'000;  // less than a ring
  uint64_t read_events = 0;
  uint64_t bytes = 0;
  uint64_t number = 0;
  const auto take = [&] {
    for (const xspace::HeldItem& held : session.store().Read(number + 1, SIZE_MAX)) {
      number = held.item.number;
      bytes += held.item.body.size();
      if (held.item.kind != xspace::ItemKind::kEvents) continue;
      v1::Events events;
      ASSERT_TRUE(
          events.ParseFromArray(held.item.body.data(), static_cast<int>(held.item.body.size())));
      read_events += events.count();
    }
    session.store().Release(number);
  };
  bool was_full = false;
  uint64_t after_it_was_full = 0;
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (uint64_t i = 0; i < kEvents; ++i) {
      JOBSCOPE_SCOPE("filler", "i", i);
    }
    while (session.Drain() == absl::ZeroDuration()) {
    }
    was_full |= session.store().Full();
    // Rounds without a reader, so that rings overwrite; then one again.
    if (round % 6 < 4) continue;
    const uint64_t before = read_events;
    take();
    if (was_full) after_it_was_full += read_events - before;
    EXPECT_FALSE(session.store().Full());
  }
  EXPECT_TRUE(was_full);
  // What is lost so far is counted a few times per second.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (collector_.LostSoFar() == 0 && std::chrono::steady_clock::now() < limit) session.Drain();
  EXPECT_GT(collector_.LostSoFar(), 0u);
  EXPECT_GT(after_it_was_full, kRounds * kEvents / 10);
  take();
  ASSERT_TRUE(collector_.Stop(session.Now()).ok());
  const CollectorReport report = collector_.Report();
  take();
  uint64_t lost = 0;
  for (const auto& [cause, events] : report.lost_by_cause) {
    EXPECT_TRUE(cause == LossCause::kOverwritten || cause == LossCause::kStoreFull) << Name(cause);
    lost += events;
  }
  EXPECT_EQ(report.attempted, kRounds * kEvents);
  EXPECT_EQ(report.attempted, report.events + lost + report.outside);
  EXPECT_EQ(report.events, read_events);
  EXPECT_EQ(session.store().events(), read_events);
  EXPECT_EQ(session.store().appended_bytes(), bytes);
  EXPECT_THAT(report.lost_by_cause, Contains(Key(LossCause::kOverwritten)));
  EXPECT_THAT(report.warnings, Contains(HasSubstr("no room for events")));
}

}  // namespace
}  // namespace jobscope
