// SPDX-License-Identifier: Apache-2.0
//
// The host collector on rings that a test has written: the cases that a real program reaches
// rarely, at exact times.
#include "collectors/host/host_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <cmath>
#include <cstring>
#include <future>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/host/fake_recorder.h"
#include "tests/host/session_driver.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

constexpr uint32_t kPlain = 1;
constexpr uint32_t kStep = 2;
constexpr uint32_t kArgs = 3;
constexpr uint32_t kAsync = 4;
constexpr uint32_t kFlow = 5;
constexpr uint32_t kCounter = 6;
constexpr uint32_t kUnknown = 999;

uint64_t Bits(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Ticks are nanoseconds. The window begins at kZero, which is long ago: what a test writes is
// always before `now`.
class HostCollectorTest : public testing::Test {
 protected:
  static constexpr uint64_t kZero = 1'000'000;

  HostCollectorTest() {
    recorder_.sites[kPlain] = {"plain", "", "file.cc", 7, JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_SCOPE,
                               {}};
    recorder_.sites[kStep] = {"train", "", "", 0, JOBSCOPE_BIT_STEP, JOBSCOPE_ROLE_STEP, {}};
    recorder_.sites[kArgs] = {
        "args", "io", "", 0, JOBSCOPE_BIT_LEVEL3, JOBSCOPE_ROLE_SCOPE, {"a", "group_id", "c"}};
    recorder_.sites[kAsync] = {"request", "", "", 0, JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_ASYNC, {}};
    recorder_.sites[kFlow] = {"flow", "", "", 0, JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_FLOW, {}};
    recorder_.sites[kCounter] = {"queue", "", "", 0, JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_COUNTER,
                                 {}};
    Thread(1).tid = 101;
    Thread(1).name = "main";
    // Without it, the window would begin no earlier than Start.
    session_.request().lookback = absl::Seconds(1);
  }

  FakeRecorder::Thread& Thread(uint64_t serial) { return recorder_.threads[serial]; }

  void Begin(uint64_t start = kZero) {
    ASSERT_TRUE(session_.Arm().ok());
    ASSERT_TRUE(session_.StartAt(start).ok());
  }
  void End(uint64_t ns_after_zero) { session_.StopAt(kZero + ns_after_zero); }
  uint64_t Lost(const std::string& cause) const {
    const auto found = session_.report().lost_by_cause.find(cause);
    return found == session_.report().lost_by_cause.end() ? 0 : found->second;
  }

  FakeRecorder recorder_;
  HostCollector collector_{recorder_.table()};
  SessionDriver session_{&collector_, /*uses_tsc=*/false};
};

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

TEST_F(HostCollectorTest, EncodesEveryKindOfArgument) {
  Begin();
  recorder_.names[5] = "interned";
  const std::string longest(120, 'x');
  recorder_.Add(1, JOBSCOPE_KIND_SCOPE, kArgs, kZero, kZero + 1, 0, static_cast<uint64_t>(-7),
                JOBSCOPE_ARG_INT64, 1 + 5, /*cut=*/true);
  recorder_.NumberArg(1, 1, JOBSCOPE_ARG_NAME, 5);
  recorder_.TextArg(1, 2, longest);
  recorder_.Add(1, JOBSCOPE_KIND_SCOPE, kArgs, kZero + 2, kZero + 3, 0, 0, JOBSCOPE_ARG_STRING,
                1 + 1 + 1);
  recorder_.TextArg(1, 0, "");
  recorder_.NumberArg(1, 1, JOBSCOPE_ARG_UINT64, UINT64_MAX);
  recorder_.NumberArg(1, 2, JOBSCOPE_ARG_DOUBLE, Bits(std::nan("")));
  recorder_.Add(1, JOBSCOPE_KIND_SCOPE, kArgs, kZero + 4, kZero + 5, 0,
                Bits(-std::numeric_limits<double>::infinity()), JOBSCOPE_ARG_DOUBLE, 1);
  recorder_.NumberArg(1, 7, JOBSCOPE_ARG_NAME, 4711);  // no such key, no such name
  End(100);
  session_.ExpectIdentity();
  const std::vector<ReadEvent> events = session_.Named("args");
  ASSERT_EQ(events.size(), 3u);
  EXPECT_THAT(events[0].ints, Contains(Pair("a", -7)));
  EXPECT_THAT(events[0].texts, Contains(Pair("arg.group_id", "interned")));
  EXPECT_THAT(events[0].texts, Contains(Pair("c", longest)));
  EXPECT_THAT(events[0].ints, Contains(Pair("truncated_args", 1)));
  EXPECT_THAT(events[0].metadata_texts, Contains(Pair("category", "io")));
  EXPECT_THAT(events[0].texts, Not(Contains(Key("tf_op")))) << "verbose scopes go without";
  EXPECT_THAT(events[1].texts, Contains(Pair("a", "")));
  EXPECT_THAT(events[1].ints, Contains(Pair("arg.group_id", -1)));
  EXPECT_THAT(events[1].texts, Contains(Pair("c", "nan")));
  EXPECT_THAT(events[2].texts, Contains(Pair("a", "-inf")));
  EXPECT_THAT(events[2].texts, Contains(Pair("arg7", "")));
}

TEST_F(HostCollectorTest, NoNameThatXProfActsUponComesFromTheProgram) {
  Begin();
  for (int i = 0; i < 3; ++i) {  // a repeated string is interned
    recorder_.Add(1, JOBSCOPE_KIND_SCOPE, kArgs, kZero, kZero + 1, 0, 0, JOBSCOPE_ARG_STRING, 1);
    recorder_.TextArg(1, 0, "group_id");
  }
  recorder_.sites[kCounter].name = "group_id";
  recorder_.Add(1, JOBSCOPE_KIND_COUNTER, kCounter, kZero, kZero, 0, 1, JOBSCOPE_ARG_INT64);
  End(100);
  session_.ExpectIdentity();
  for (const auto& plane : session_.space().planes()) {
    for (const auto& [id, metadata] : plane.stat_metadata()) {
      EXPECT_NE(metadata.name(), "group_id");
    }
  }
  EXPECT_THAT(session_.Named("args")[2].texts, Contains(Pair("a", "group_id")));
}

TEST_F(HostCollectorTest, RepeatedStringsAreWrittenOnce) {
  Begin();
  for (int i = 0; i < 4; ++i) {
    recorder_.Add(1, JOBSCOPE_KIND_SCOPE, kArgs, kZero, kZero + 1, 0, 0, JOBSCOPE_ARG_STRING, 1);
    recorder_.TextArg(1, 0, "shard");
  }
  End(100);
  int references = 0;
  for (const auto& plane : session_.space().planes()) {
    for (const auto& line : plane.lines()) {
      for (const auto& event : line.events()) {
        for (const auto& stat : event.stats()) references += stat.has_ref_value() ? 1 : 0;
      }
    }
  }
  EXPECT_EQ(references, 3);
}

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
  EXPECT_EQ(Lost("invalid"), 4u);
}

TEST_F(HostCollectorTest, AContinuationWithoutItsEventIsNoEvent) {
  Begin();
  recorder_.Scope(1, kPlain, kZero + 1, kZero + 2);
  recorder_.NumberArg(1, 1, JOBSCOPE_ARG_INT64, 1);
  recorder_.Scope(1, kPlain, kZero + 3, kZero + 4);
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().attempted, 3u);
  EXPECT_EQ(Lost("invalid"), 2u) << "nothing behind it can be trusted";
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
  EXPECT_EQ(Lost("overwritten"), 4u);
  EXPECT_EQ(Lost("no_ring"), 3u);
  EXPECT_EQ(Lost("reentered"), 7u);
  ASSERT_EQ(session_.report().threads.size(), 1u);
  EXPECT_EQ(session_.report().threads[0].lost, 9u);
  EXPECT_EQ(session_.report().threads[0].attempted, 15u);
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
  EXPECT_EQ(Lost("overwritten"), 1u);
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
  EXPECT_EQ(Lost("overwritten"), 1u);
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

TEST_F(HostCollectorTest, WithoutAStepSourceStepsAreNotKnown) {
  Begin();
  End(100);
  EXPECT_FALSE(session_.report().steps.has_value());
}

TEST_F(HostCollectorTest, FlowsBelongToTheScopeThatClosesAroundThem) {
  Begin();
  // A scope with two producers and one consumer, and within it a sibling that closes before.
  recorder_.Scope(1, kPlain, kZero + 20, kZero + 30, 1);
  recorder_.Add(1, JOBSCOPE_KIND_FLOW_OUT, kFlow, kZero + 40, kZero + 40, 1, 1001,
                JOBSCOPE_ARG_UINT64);
  recorder_.Add(1, JOBSCOPE_KIND_FLOW_IN, kFlow, kZero + 41, kZero + 41, 1, 1002,
                JOBSCOPE_ARG_UINT64);
  recorder_.Add(1, JOBSCOPE_KIND_FLOW_OUT, kFlow, kZero + 42, kZero + 42, 1, 1003,
                JOBSCOPE_ARG_UINT64);
  recorder_.Scope(1, kPlain, kZero + 50, kZero + 60, 1);
  recorder_.Scope(1, kPlain, kZero + 10, kZero + 70, 0);
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().attempted, 4u) << "three scopes, and the flow that found no room";
  const std::vector<ReadEvent> scopes = session_.Named("plain");
  ASSERT_EQ(scopes.size(), 3u);
  EXPECT_THAT(scopes[0].ints, Contains(Pair("_p", 1001)));
  EXPECT_THAT(scopes[0].ints, Contains(Pair("_c", 1002)));
  EXPECT_THAT(scopes[1].ints, Not(Contains(Key("_p"))));
  EXPECT_THAT(scopes[2].ints, Not(Contains(Key("_p"))));
  EXPECT_THAT(session_.One("flow").ints, Contains(Pair("_p", 1003)));
  EXPECT_EQ(session_.One("flow").duration_ps, 1);
}

TEST_F(HostCollectorTest, FlowsWithoutAScopeStandAlone) {
  Begin();
  for (uint64_t i = 0; i < 100; ++i) {  // more than wait
    recorder_.Add(1, JOBSCOPE_KIND_FLOW_OUT, kFlow, kZero + i, kZero + i, 1, 2000 + i,
                  JOBSCOPE_ARG_UINT64);
  }
  recorder_.Add(1, JOBSCOPE_KIND_FLOW_IN, kFlow, kZero - 5, kZero - 5, 1, 7, JOBSCOPE_ARG_UINT64);
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.Named("flow").size(), 100u);
  EXPECT_EQ(session_.report().outside, 1u);
}

TEST_F(HostCollectorTest, AFlowInAnOpenScopeIsOfThatScope) {
  Begin();
  Thread(1).open = {{kPlain, 0, kZero + 10, 0, 0}};
  recorder_.Add(1, JOBSCOPE_KIND_FLOW_IN, kFlow, kZero + 40, kZero + 40, 1, 77,
                JOBSCOPE_ARG_UINT64);
  End(100);
  session_.ExpectIdentity();
  EXPECT_THAT(session_.One("plain").ints, Contains(Pair("_c", 77)));
  EXPECT_EQ(session_.events_read().size(), 1u);
}

TEST_F(HostCollectorTest, AsyncHalvesPairInAnyOrder) {
  Begin();
  Thread(2).tid = 102;
  const auto begin = [&](uint64_t serial, uint64_t id, uint64_t at) {
    recorder_.Add(serial, JOBSCOPE_KIND_ASYNC_BEGIN, kAsync, kZero + at, kZero + at, 0, id,
                  JOBSCOPE_ARG_UINT64);
  };
  const auto end = [&](uint64_t serial, uint64_t id, uint64_t at) {
    recorder_.Add(serial, JOBSCOPE_KIND_ASYNC_END, kAsync, kZero + at, kZero + at, 0, id,
                  JOBSCOPE_ARG_UINT64);
  };
  end(1, 50, 30);  // begun by thread 2, which is read later
  begin(2, 50, 10);
  begin(1, 51, 20);  // overlaps
  end(2, 51, 40);
  begin(1, 52, 45);  // fits behind
  end(1, 52, 50);
  begin(1, 53, 60);  // never ends
  end(2, 54, 70);    // never began here
  End(100);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().attempted, 5u);
  std::map<int64_t, ReadEvent> by_id;
  for (const ReadEvent& event : session_.Named("request")) {
    const auto id = event.ints.find("async_id");
    if (id != event.ints.end()) by_id[id->second] = event;
  }
  ASSERT_EQ(by_id.size(), 4u);
  EXPECT_EQ(by_id[50].start_ps, 10'000);
  EXPECT_EQ(by_id[50].duration_ps, 20'000);
  EXPECT_EQ(by_id[51].duration_ps, 20'000);
  EXPECT_EQ(by_id[53].end_ps(), 100'000);
  EXPECT_THAT(by_id[53].ints, Contains(Pair("truncated", 1)));
  EXPECT_NE(by_id[50].line_id, by_id[51].line_id);
  std::vector<std::string> lines;
  for (const auto& plane : session_.space().planes()) {
    if (plane.name() != "/device:CUSTOM:async") continue;
    for (const auto& line : plane.lines()) lines.push_back(line.name());
  }
  EXPECT_THAT(lines, testing::UnorderedElementsAre("request", "request (2)"));
  int alone = 0;
  for (const ReadEvent& event : session_.Named("request")) {
    if (event.ints.count("async_end") == 0) continue;
    ++alone;
    EXPECT_EQ(event.plane, "/host:CPU");
    EXPECT_EQ(event.line_id, 102);
    EXPECT_EQ(event.start_ps, 70'000);
  }
  EXPECT_EQ(alone, 1);
}

TEST_F(HostCollectorTest, AsyncTableIsBounded) {
  Begin();
  constexpr uint64_t kHalves = host::AsyncPairs::kMaxOpen + 1000;
  for (uint64_t i = 0; i < kHalves; ++i) {
    recorder_.Add(1, i % 2 == 0 ? JOBSCOPE_KIND_ASYNC_BEGIN : JOBSCOPE_KIND_ASYNC_END, kAsync,
                  kZero + i, kZero + i, 0, 1'000'000 + i, JOBSCOPE_ARG_UINT64);
  }
  End(2 * kHalves);
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().attempted, kHalves);
  EXPECT_EQ(session_.report().events, kHalves);
}

TEST_F(HostCollectorTest, CountersThatAreNoNumbersAreText) {
  Begin();
  recorder_.Add(1, JOBSCOPE_KIND_COUNTER, kCounter, kZero, kZero, 0, Bits(2.5),
                JOBSCOPE_ARG_DOUBLE);
  recorder_.Add(1, JOBSCOPE_KIND_COUNTER, kCounter, kZero + 1, kZero + 1, 0, Bits(std::nan("")),
                JOBSCOPE_ARG_DOUBLE);
  End(100);
  session_.ExpectIdentity();
  const std::vector<ReadEvent> samples = session_.Named("queue");
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_THAT(samples[0].doubles, Contains(Pair("queue", 2.5)));
  EXPECT_THAT(samples[1].texts, Contains(Pair("queue", "nan")));
}

TEST_F(HostCollectorTest, ThreadsWithoutARingAreTold) {
  Thread(2).has_ring = false;
  Begin();
  End(100);
  EXPECT_THAT(session_.report().warnings, Contains(HasSubstr("1 threads have no ring")));
  EXPECT_THAT(session_.report().warnings, Contains(HasSubstr("CLOCK_MONOTONIC")));
}

TEST_F(HostCollectorTest, AFullDictionaryIsTold) {
  recorder_.totals.dictionary_full = 12;
  Begin();
  End(100);
  EXPECT_THAT(session_.report().warnings, Contains(HasSubstr("12 names were refused")));
}

// Takes names of planes, lines and stats, and refuses those of events.
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
  EXPECT_EQ(Lost("store_full"), 103u);
}

TEST_F(HostCollectorTest, StepWindowRebasesTheZero) {
  session_.set_steps(StepRange{5, 6});
  ASSERT_TRUE(session_.Arm().ok());
  ASSERT_TRUE(session_.StartAt(kZero).ok());
  EXPECT_EQ(recorder_.masks[JOBSCOPE_HOLDER_SESSION], JOBSCOPE_BIT_STEP);
  recorder_.Scope(1, kPlain, kZero + 1, kZero + 2);  // while it waits: not of the session
  session_.Drain();
  recorder_.step_count = 2;
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
  EXPECT_EQ(session_.report().attempted, 3u);
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
  const uint32_t alone = prefaulted("worker", 0);
  EXPECT_EQ(prefaulted("jobscope-collec", 5), alone);
  EXPECT_EQ(prefaulted("worker", 5), alone + 5);
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

TEST(HostCollectorWithoutRecorderTest, IsOffAndSaysWhy) {
  HostCollector collector(nullptr);
  EXPECT_EQ(collector.Describe().state, "off");
  EXPECT_THAT(collector.Describe().reason, HasSubstr("libjobscope_trace.so"));
  collector.SetAlwaysOn(true);
  EXPECT_FALSE(collector.WatchesSteps());
  ArmRequest request;
  EXPECT_FALSE(collector.Arm(request).ok());
  EXPECT_EQ(collector.Report().state, "off");
}

}  // namespace
}  // namespace jobscope
