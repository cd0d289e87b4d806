// SPDX-License-Identifier: Apache-2.0
//
// Tests recording ahead of the window, with the real recorder: the bits are on, such events are not
// in the trace, and overwritten ones do not count as lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <thread>

#include "absl/time/time.h"
#include "collectors/host/host_collector.h"
#include "jobscope/trace.h"
#include "tests/collectors/host/session_driver.h"

namespace jobscope {
namespace {

using ::testing::IsEmpty;

class HostAheadTest : public testing::Test {
 protected:
  HostAheadTest() { session_.request().ahead = absl::Hours(1); }

  static const host::Reader* reader() { return ::jobscope_trace_reader(); }
  static uint32_t mask() { return reader()->mask(); }
  // More than the ring holds.
  static void OverwriteAll() {
    for (uint32_t i = 0; i < 2 * reader()->ring_records; ++i) {
      JOBSCOPE_SCOPE("early");
    }
  }
  void ExpectTenAndNoLoss() {
    session_.ExpectIdentity();
    EXPECT_EQ(session_.Named("inside").size(), 10u);
    EXPECT_THAT(session_.Named("early"), IsEmpty());
    EXPECT_THAT(session_.report().lost_by_cause, IsEmpty());
  }
  static void RecordTen() {
    for (int i = 0; i < 10; ++i) {
      JOBSCOPE_SCOPE("inside");
    }
  }

  HostCollector collector_{reader()};
  SessionDriver session_{&collector_, reader()->uses_tsc != 0};
};

// The thread that is to tell the start is run after the instant, as on a machine without an idle
// core.
TEST_F(HostAheadTest, AStartThatComesLateMissesNothing) {
  ASSERT_TRUE(session_.Arm().ok());
  EXPECT_NE(mask() & JOBSCOPE_BIT_LEVEL1, 0u) << "on before anything is commanded";
  OverwriteAll();
  session_.Drain();
  const uint64_t instant = session_.Now();
  RecordTen();
  ASSERT_TRUE(session_.StartAt(instant).ok());
  EXPECT_LE(collector_.RecordingSince(), instant) << "it was not late";
  session_.Stop();
  ExpectTenAndNoLoss();
  EXPECT_EQ(mask() & JOBSCOPE_BIT_LEVEL1, 0u);
}

TEST_F(HostAheadTest, AnInstantToComeClipsWhatIsRecordedUntilThen) {
  // The instant must be so far that this thread, on a busy machine, fills the ring before it.
  std::optional<SessionDriver> session;
  bool was_full = false;
  for (uint64_t ahead_ns = 100'000'000; !was_full; ahead_ns *= 2) {
    ASSERT_LT(ahead_ns, 60'000'000'000u);
    session.emplace(&collector_, reader()->uses_tsc != 0);
    session->request().ahead = absl::Hours(1);
    ASSERT_TRUE(session->Arm().ok());
    const uint64_t instant = session->Now() + ahead_ns;
    ASSERT_TRUE(session->StartAt(instant).ok());
    {
      JOBSCOPE_SCOPE("across");
      OverwriteAll();
      was_full = session->Now() < instant;
      while (session->Now() < instant) {
        JOBSCOPE_SCOPE("early");  // no drain keeps up with it
      }
    }
    RecordTen();
    session->Stop();
  }
  session->ExpectIdentity();
  EXPECT_THAT(session->report().lost_by_cause, IsEmpty());
  EXPECT_GT(session->report().outside, reader()->ring_records);
  EXPECT_EQ(session->Named("inside").size(), 10u);
  EXPECT_LE(session->Named("early").size(), 1u) << "the one that the instant found open";
  EXPECT_EQ(session->One("across").start_ps, 0);
}

// Once an event that ended in the window has been overwritten, nobody can tell what else was.
TEST_F(HostAheadTest, WhatIsOverwrittenInTheWindowIsLost) {
  ASSERT_TRUE(session_.Arm().ok());
  ASSERT_TRUE(session_.Start().ok());
  OverwriteAll();
  session_.Stop();
  session_.ExpectIdentity();
  EXPECT_GE(session_.report().lost_by_cause.at(LossCause::kOverwritten), reader()->ring_records);
}

TEST_F(HostAheadTest, EndsByItselfWhereNoStartComes) {
  session_.request().ahead = absl::Nanoseconds(1);
  ASSERT_TRUE(session_.Arm().ok());
  EXPECT_NE(collector_.RecordingSince(), 0u);
  EXPECT_EQ(session_.Drain(), absl::InfiniteDuration());
  EXPECT_EQ(collector_.RecordingSince(), 0u);
  EXPECT_EQ(mask() & JOBSCOPE_BIT_LEVEL1, 0u);
  const uint64_t instant = session_.Now();
  RecordTen();
  ASSERT_TRUE(session_.StartAt(instant).ok());
  EXPECT_GT(collector_.RecordingSince(), instant) << "late, and says so";
  RecordTen();
  session_.Stop();
  ExpectTenAndNoLoss();
}

// Its ring is given back, so that others find one: what it recorded in the window would be missing.
TEST_F(HostAheadTest, AThreadThatEndsMeanwhileMakesTheStartLate) {
  ASSERT_TRUE(session_.Arm().ok());
  const uint64_t instant = session_.Now();
  std::thread([] { RecordTen(); }).join();
  EXPECT_GT(session_.Drain(), absl::ZeroDuration());
  ASSERT_TRUE(session_.StartAt(instant).ok());
  EXPECT_GT(collector_.RecordingSince(), instant);
  RecordTen();
  session_.Stop();
  ExpectTenAndNoLoss();
}

TEST_F(HostAheadTest, ALookbackIsNotOverwritten) {
  session_.request().lookback = absl::Seconds(1);
  ASSERT_TRUE(session_.Arm().ok());
  EXPECT_EQ(collector_.RecordingSince(), 0u);
  EXPECT_EQ(mask() & JOBSCOPE_BIT_LEVEL1, 0u);
}

TEST_F(HostAheadTest, AStopBeforeTheInstantLeavesAnEmptyTrace) {
  ASSERT_TRUE(session_.Arm().ok());
  const uint64_t instant = session_.Now() + 3'600'000'000'000;
  ASSERT_TRUE(session_.StartAt(instant).ok());
  {
    JOBSCOPE_SCOPE("early");
    session_.Drain();
    session_.StopAt(instant);
  }
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().events, 0u);
}

}  // namespace
}  // namespace jobscope
