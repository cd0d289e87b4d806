// SPDX-License-Identifier: Apache-2.0
//
// Tests the events that are not in the trace, and the causes: each event is counted once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <thread>

#include "common/xspace/segment/item_sink.h"
#include "tests/collectors/gated_sink.h"
#include "tests/collectors/host/host_collector_fixture.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(HostCollectorTest, BadRecordsAreLostNotFatal) {
  Begin();
  recorder_.Scope(1, kPlain, kZero + 9, kZero + 8);
  recorder_.Scope(1, kUnknown, kZero + 1, kZero + 2);
  recorder_.Scope(1, UINT32_MAX, kZero + 1, kZero + 2);
  recorder_.Add(1, 14, kPlain, kZero + 1, kZero + 2);
  recorder_.Scope(1, kPlain, kZero + 3, kZero + 4);
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().attempted, 5u);
  EXPECT_EQ(session_.report().events, 1u);
  EXPECT_EQ(Lost(LossCause::kInvalid), 4u);
}

TEST_F(HostCollectorTest, AContinuationWithoutItsEventIsNoEvent) {
  Begin();
  recorder_.Scope(1, kPlain, kZero + 1, kZero + 2);
  recorder_.NumberArg(1, 1, JOBSCOPE_ARG_INT64, 1);
  recorder_.Scope(1, kPlain, kZero + 3, kZero + 4);
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().attempted, 3u);
  EXPECT_EQ(Lost(LossCause::kInvalid), 2u) << "nothing behind it can be trusted";
}

TEST_F(HostCollectorTest, EveryCauseOfLossIsCounted) {
  Begin();
  recorder_.totals.no_ring_events = 3;
  recorder_.totals.reentered_events = 7;
  Thread(1).reentered = 5;
  for (int i = 0; i < 10; ++i) recorder_.Scope(1, kPlain, kZero + i, kZero + i + 1);
  Thread(1).overwritten_events = 4;
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().attempted, 10u + 3 + 7);
  EXPECT_EQ(session_.report().events, 6u);
  EXPECT_EQ(Lost(LossCause::kOverwritten), 4u);
  EXPECT_EQ(Lost(LossCause::kNoRing), 3u);
  EXPECT_EQ(Lost(LossCause::kReentered), 7u);
  ASSERT_EQ(session_.report().threads.size(), 1u);
  EXPECT_EQ(session_.report().threads[0].lost, 9u);
  EXPECT_EQ(session_.report().threads[0].attempted, 15u);
}

TEST_F(HostCollectorTest, ThreadsWithoutARingThatAreNotListedAreNotDenied) {
  recorder_.set_max_listed_without_ring(3);
  Begin();
  for (uint64_t serial = 2; serial < 4; ++serial) Thread(serial).has_ring = false;
  End(100);
  EXPECT_THAT(session_.report().warnings, Contains(StartsWith("2 threads have no ring")));
  Begin();
  Thread(4).has_ring = false;
  End(100);
  EXPECT_THAT(session_.report().warnings, Contains(StartsWith("at least 3 threads have no ring")));
}

TEST_F(HostCollectorTest, LossesBeforeTheSessionAreNotItsOwn) {
  recorder_.totals.no_ring_events = 100;
  recorder_.totals.reentered_events = 50;
  Thread(1).reentered = 50;
  for (int i = 0; i < 10; ++i) recorder_.Scope(1, kPlain, kZero - 100, kZero - 50);
  Thread(1).overwritten_events = 4;
  session_.request().lookback = absl::ZeroDuration();
  Begin();
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().attempted, 0u);
}

// What was overwritten may have been the end of the step that was running.
TEST_F(HostCollectorTest, AfterALossTheStepThatRunsIsTheSampledOne) {
  Begin();
  recorder_.Add(1, JOBSCOPE_KIND_STEP_BEGIN, kStep, kZero + 40, kZero + 40, 0, 12,
                JOBSCOPE_ARG_INT64);
  session_.Drain();
  recorder_.Add(1, JOBSCOPE_KIND_STEP, kStep, kZero + 40, kZero + 60, 0, 12, JOBSCOPE_ARG_INT64);
  recorder_.Add(1, JOBSCOPE_KIND_STEP_BEGIN, kStep, kZero + 70, kZero + 70, 0, 13,
                JOBSCOPE_ARG_INT64);
  Thread(1).overwritten_events = 3;
  recorder_.Scope(1, kPlain, kZero + 80, kZero + 90, 1);
  Thread(1).open = {{kStep, 0, kZero + 70, 1, 13}};
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(Lost(LossCause::kOverwritten), 2u);
  const ReadEvent step = session_.One("scope/train");
  EXPECT_EQ(step.start_ps, 70'000);
  EXPECT_EQ(step.ints.at("clipped_step"), 13);
}

// Its thread laps the reader until the end.
TEST_F(HostCollectorTest, AStepWhoseEndIsUnreadIsNotShownAsRunning) {
  Begin();
  recorder_.Add(1, JOBSCOPE_KIND_STEP_BEGIN, kStep, kZero + 40, kZero + 40, 0, 12,
                JOBSCOPE_ARG_INT64);
  session_.Drain();
  recorder_.Add(1, JOBSCOPE_KIND_STEP, kStep, kZero + 40, kZero + 60, 0, 12, JOBSCOPE_ARG_INT64);
  recorder_.empty_reads = std::numeric_limits<int>::max();
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(Lost(LossCause::kOverwritten), 1u);
  EXPECT_TRUE(session_.Named("scope/train").empty());
}

// Threads go on after the end of the window, and overwrite what the last drain has not read.
TEST_F(HostCollectorTest, LossesAfterTheWindowAreNotItsOwn) {
  Begin();
  for (int i = 0; i < 4; ++i) recorder_.Scope(1, kPlain, kZero + i, kZero + i + 1);
  recorder_.before_next_read = [this] {
    for (int i = 0; i < 10; ++i) recorder_.Scope(1, kPlain, kZero + 200 + i, kZero + 201 + i);
    Thread(1).overwritten_events = 9;
  };
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().attempted, 4u);
  EXPECT_EQ(Lost(LossCause::kOverwritten), 4u);
}

TEST_F(HostCollectorTest, LossesBeforeTheWindowOfStepsAreNotItsOwn) {
  session_.set_steps(StepRange{5, 6});
  ASSERT_TRUE(session_.Arm().ok());
  ASSERT_TRUE(session_.StartAt(kZero).ok());
  const auto refuse = [this](uint64_t events) {
    recorder_.totals.reentered_events += events;
    Thread(1).reentered += events;
  };
  refuse(50);
  session_.Drain();
  recorder_.trigger = {JOBSCOPE_TRIGGER_OPEN, 5, 0, kZero + 1000, 0};
  recorder_.Add(1, JOBSCOPE_KIND_STEP_BEGIN, kStep, kZero + 1000, kZero + 1000, 0, 5,
                JOBSCOPE_ARG_INT64);
  session_.Drain();
  refuse(3);
  End(2000);
  session_.ExpectIdentity();
  EXPECT_EQ(Lost(LossCause::kReentered), 3u);
}

TEST_F(HostCollectorTest, AReaderThatIsLappedTriesAgain) {
  Begin();
  recorder_.Scope(1, kPlain, kZero, kZero + 1);
  recorder_.empty_reads = 3;
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().events, 1u);
}

TEST_F(HostCollectorTest, AReaderThatIsAlwaysLappedGivesUpAndCounts) {
  Begin();
  recorder_.Scope(1, kPlain, kZero, kZero + 1);
  recorder_.empty_reads = std::numeric_limits<int>::max();
  session_.Drain();
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(Lost(LossCause::kOverwritten), 1u);
}

TEST_F(HostCollectorTest, AThreadThatVanishesIsLost) {
  Begin();
  session_.Drain();
  Thread(2).tid = 102;
  recorder_.Scope(2, kPlain, kZero, kZero + 1);
  recorder_.empty_reads = 100;
  session_.Drain();  // sees its head, and comes away empty
  recorder_.empty_reads = 0;
  recorder_.threads.erase(2);
  session_.Drain();
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().attempted, 1u);
  EXPECT_EQ(Lost(LossCause::kOverwritten), 1u);
}

TEST_F(HostCollectorTest, ThreadsWithoutARingAreReported) {
  Thread(2).has_ring = false;
  Begin();
  End(100);
  EXPECT_THAT(session_.report().warnings, Contains(HasSubstr("1 threads have no ring")));
  EXPECT_THAT(session_.report().warnings, Contains(HasSubstr("CLOCK_MONOTONIC")));
}

// In the captures that have such events, and in no other: the process may have refused names long
// before, or only texts of arguments.
TEST_F(HostCollectorTest, EventsWithoutANameAreReported) {
  recorder_.totals.dictionary_full = 12;
  recorder_.sites[JOBSCOPE_SITE_WITHOUT_A_NAME].name = "(dictionary full)";
  for (const uint32_t site : {kPlain, JOBSCOPE_SITE_WITHOUT_A_NAME, kPlain}) {
    Begin();
    recorder_.Scope(1, site, kZero + 10, kZero + 20);
    End(100);
    const auto reported = Contains(HasSubstr("dictionary of names is full"));
    if (site == kPlain) {
      EXPECT_THAT(session_.report().warnings, Not(reported));
    } else {
      EXPECT_THAT(session_.report().warnings, reported);
    }
    recorder_.threads[1].records.clear();
  }
}

// It has recorded nothing that could be read, but it hangs in something: that is what is looked
// for.
TEST_F(HostCollectorTest, WhatAThreadWithoutARingIsInsideOfIsInTheTrace) {
  Thread(2).has_ring = false;
  Thread(2).tid = 102;
  Thread(2).open = {{kPlain, 0, kZero + 10, 0, 0}};
  Begin();
  session_.Drain();
  End(100);
  session_.ExpectIdentity();
  const ReadEvent hung = session_.One("plain");
  EXPECT_EQ(hung.line_id, 102);
  EXPECT_EQ(hung.start_ps, 10'000);
  EXPECT_EQ(hung.end_ps(), 100'000);
  EXPECT_EQ(hung.ints.at("truncated"), 1);
}

// The recorder goes over all its states for each list, so a list in pieces costs the square.
TEST_F(HostCollectorTest, ManyThreadsAreListedAtOnce) {
  for (uint64_t serial = 2; serial <= 5000; ++serial) {
    Thread(serial).tid = static_cast<int32_t>(100 + serial);
  }
  Begin();
  session_.Drain();
  const int before = recorder_.lists;
  recorder_.Scope(5000, kPlain, kZero + 10, kZero + 20);
  session_.Drain();
  EXPECT_EQ(recorder_.lists, before + 1);
  End(100);
  EXPECT_EQ(session_.One("plain").line_id, 5100);
}

// Training steps are bursts of scopes with waiting between them: the reader must not be away when
// the next one comes.
TEST_F(HostCollectorTest, TheReaderStaysNearWhileRecordsCome) {
  const auto longest_of_twenty = [this] {
    absl::Duration longest;
    for (int i = 0; i < 20; ++i) longest = std::max(longest, session_.Drain());
    return longest;
  };
  const uint64_t begun_ns = WorkerMonotonicNs();
  Begin();
  const absl::Duration at_first = longest_of_twenty();
  const uint64_t first_ns = WorkerMonotonicNs();
  // A worker that has not recorded much is left alone soon.
  while (WorkerMonotonicNs() - first_ns < 2'100'000'000) std::this_thread::yield();
  EXPECT_EQ(longest_of_twenty(), absl::Milliseconds(100));
  const uint64_t before_ns = WorkerMonotonicNs();
  session_.Drain();
  // As many in a moment as the ring holds.
  for (int i = 0; i < 1024; ++i) recorder_.Scope(1, kPlain, kZero + i, kZero + i + 1);
  session_.Drain();
  const uint64_t burst_ns = WorkerMonotonicNs();
  const absl::Duration after_burst = longest_of_twenty();
  // Unless the machine stood still.
  if (first_ns - begun_ns < 2'000'000'000) {
    EXPECT_LE(at_first, absl::Milliseconds(20)) << "nothing is known of its threads";
  }
  if (WorkerMonotonicNs() - before_ns < 100'000'000) {
    // Before a quarter of the ring is full again, at that rate.
    const absl::Duration quarter = absl::Nanoseconds(burst_ns - before_ns) / 4;
    EXPECT_LE(after_burst, std::max(quarter, absl::Milliseconds(1))) << "the burst is remembered";
  }
  End(10'000);
  session_.ExpectIdentity();
}

class NamelessSink : public xspace::ItemSink {
 public:
  [[nodiscard]] bool Append(xspace::ItemKind kind, std::string_view /*body*/) override {
    if (kind == xspace::ItemKind::kNames && ++names_ > 40) return false;
    return kind != xspace::ItemKind::kEvents;
  }
  bool Full() const override { return false; }

 private:
  int names_ = 0;
};

TEST_F(HostCollectorTest, EventsWithoutRoomForTheirNamesAreLost) {
  NamelessSink sink;
  xspace::Names names(&sink);
  session_.request().sink = &sink;
  session_.request().names = &names;
  Begin();
  for (uint32_t site = 100; site < 200; ++site) {
    recorder_.sites[site].name = "site " + std::to_string(site);
    recorder_.Scope(1, site, kZero + site, kZero + site + 1);
  }
  recorder_.Add(1, JOBSCOPE_KIND_COUNTER, kCounter, kZero, kZero, 0, 1, JOBSCOPE_ARG_INT64);
  recorder_.Add(1, JOBSCOPE_KIND_STEP, kStep, kZero, kZero + 1, 0, 1, JOBSCOPE_ARG_INT64);
  recorder_.Add(1, JOBSCOPE_KIND_ASYNC_BEGIN, kAsync, kZero, kZero, 0, 9, JOBSCOPE_ARG_UINT64);
  End(1000);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().attempted, 103u);
  EXPECT_EQ(session_.report().events, 0u);
  EXPECT_EQ(Lost(LossCause::kStoreFull), 103u);
}

class GatedStoreTest : public HostCollectorTest {
 protected:
  GatedStoreTest() {
    session_.request().sink = &sink_;
    session_.request().names = &names_;
  }

  GatedSink sink_{&session_.store()};
  xspace::Names names_{&sink_};
};

// Events of a line that the trace does not declare would make all of it unreadable.
TEST_F(GatedStoreTest, ALineWithoutRoomLosesItsEventsUntilThereIsRoom) {
  Begin();
  sink_.refused = {xspace::ItemKind::kLine};
  recorder_.Scope(1, kPlain, kZero + 10, kZero + 20);
  recorder_.Add(1, JOBSCOPE_KIND_COUNTER, kCounter, kZero + 21, kZero + 21, 0, 1,
                JOBSCOPE_ARG_INT64);
  recorder_.Add(1, JOBSCOPE_KIND_STEP, kStep, kZero + 22, kZero + 23, 0, 1, JOBSCOPE_ARG_INT64);
  session_.Drain();
  sink_.refused.clear();
  recorder_.Scope(1, kPlain, kZero + 30, kZero + 40);
  session_.Drain();
  End(1000);
  session_.ExpectIdentity();
  EXPECT_EQ(Lost(LossCause::kStoreFull), 3u);
  EXPECT_EQ(session_.One("plain").line_id, 101);
}

TEST_F(GatedStoreTest, ALineOfAsyncOperationsToo) {
  const auto pair = [this](uint64_t id, uint64_t begin) {
    recorder_.Add(1, JOBSCOPE_KIND_ASYNC_BEGIN, kAsync, begin, begin, 0, id, JOBSCOPE_ARG_UINT64);
    recorder_.Add(1, JOBSCOPE_KIND_ASYNC_END, kAsync, begin + 1, begin + 1, 0, id,
                  JOBSCOPE_ARG_UINT64);
  };
  Begin();
  sink_.refused = {xspace::ItemKind::kLine, xspace::ItemKind::kPlane};
  pair(7, kZero + 10);
  session_.Drain();
  sink_.refused = {xspace::ItemKind::kLine};
  pair(8, kZero + 20);
  session_.Drain();
  sink_.refused.clear();
  pair(9, kZero + 30);
  session_.Drain();
  End(1000);
  session_.ExpectIdentity();
  EXPECT_EQ(Lost(LossCause::kStoreFull), 2u);
  EXPECT_EQ(session_.One("request").ints.at("async_id"), 9);
}

TEST_F(GatedStoreTest, ASiteIsNamedOnceThereIsRoom) {
  Begin();
  sink_.refused = {xspace::ItemKind::kNames};
  recorder_.Scope(1, kPlain, kZero + 10, kZero + 20);
  session_.Drain();
  sink_.refused.clear();
  recorder_.Scope(1, kPlain, kZero + 30, kZero + 40);
  session_.Drain();
  End(1000);
  session_.ExpectIdentity();
  EXPECT_EQ(Lost(LossCause::kStoreFull), 1u);
  EXPECT_EQ(session_.One("plain").start_ps, 30'000);
}

}  // namespace
}  // namespace jobscope
