// SPDX-License-Identifier: Apache-2.0
//
// Encodes records: arguments, flows, async operations, counters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "collectors/host/encoding/async_pairs.h"
#include "collectors/host/encoding/site_table.h"
#include "collectors/host/encoding/thread_line.h"
#include "collectors/host/encoding/window.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/store.h"
#include "tests/collectors/host/host_collector_fixture.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

uint64_t Bits(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
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

// Ends are read before their begins as often as not: a long capture has millions of such pairs.
TEST_F(HostCollectorTest, PairsLeaveNothingBehind) {
  xspace::Store store(256 << 20);
  xspace::Names names(&store);
  const xspace::PlaneKey plane = names.Plane("/host:CPU", 1);
  host::Window window;
  host::SiteTable sites(recorder_.table(), &names, plane);
  host::AsyncPairs pairs(recorder_.table(), &store, &names, &window, &sites);
  host::ThreadLine line(&store, &names, plane, 101, "main");
  line.account.attempted = 2'000'000;
  const auto half = [&line](uint64_t ticks) {
    host::AsyncHalf made;
    made.ticks = ticks;
    made.site = kAsync;
    made.line = &line;
    return made;
  };
  for (uint64_t i = 1; i <= 200'000; ++i) {
    pairs.End(i % 1000, half(10 * i + 5));
    pairs.Begin(i % 1000, half(10 * i));
    if (i % 100 == 0) pairs.PlaceDone();
  }
  EXPECT_LE(pairs.remembered(), 2 * host::AsyncPairs::kMaxOpen);
  // Of those that wait, the oldest is still the first to be replaced.
  for (uint64_t i = 0; i <= host::AsyncPairs::kMaxOpen; ++i) pairs.End(1'000'000 + i, half(i));
  EXPECT_LE(pairs.remembered(), 3 * host::AsyncPairs::kMaxOpen);
  pairs.Begin(1'000'000, half(0));  // its end has gone: it waits for another
  pairs.Begin(1'000'500, half(0));  // this one's is there
  pairs.Finish();
  pairs.Flush();
  line.Flush();
  EXPECT_EQ(line.account.lost(), 0u);
  EXPECT_EQ(line.account.in_trace, 200'000 + host::AsyncPairs::kMaxOpen + 2);
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

}  // namespace
}  // namespace jobscope
