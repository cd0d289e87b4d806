// SPDX-License-Identifier: Apache-2.0
//
// Events of providers in the trace, through a collector and its session.
#include "collectors/provider/trace_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/collectors/host/session_driver.h"
#include "tests/collectors/provider/fake_provider.h"
#include "tests/collectors/provider/provider_fixture.h"

namespace jobscope {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

using TraceWriterTest = ProviderTest;

// As in the recorder's events: docs/trace_format.md.
TEST_F(TraceWriterTest, NamesAndNumbersThatViewersMisreadAreChanged) {
  KeepSink();
  SessionDriver driver(&collector_, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  const int64_t zero = session_.begin_monotonic_ns;
  jobscope_provider_arg args[3] = {};
  args[0].key = "group_id";
  args[0].value.int64_value = 7;
  args[1].key = "truncated";
  args[1].value.int64_value = 8;
  args[2].key = "ratio";
  args[2].type = JOBSCOPE_PROVIDER_DOUBLE;
  args[2].value.double_value = std::nan("");
  jobscope_provider_event of_thread = Span("train_x", zero - kUs, 3 * kUs);
  of_thread.thread_id = gettid();
  of_thread.args = args;
  of_thread.arg_count = 3;
  jobscope_provider_event own = of_thread;
  own.line = "writer";
  jobscope_provider_event reserved = Span("group_id", zero + kUs, 0);
  reserved.kind = JOBSCOPE_PROVIDER_COUNTER;
  reserved.value = 12;
  jobscope_provider_event marker = reserved;
  marker.name = "test_loss";
  EXPECT_EQ(Add({of_thread, own, reserved, marker}), 0);
  EXPECT_EQ(driver.StopAt(driver.map().zero_ticks() + 1000 * kUs).events, 4u);
  EXPECT_EQ(driver.One("scope/train_x").plane, "/host:CPU");
  EXPECT_EQ(driver.One("scope/train_x").display_name, "train_x");
  // XProf interprets the names of events on the host's plane only, but stats on all.
  EXPECT_EQ(driver.One("train_x").plane, "/device:CUSTOM:disk");
  for (const char* name : {"scope/train_x", "train_x"}) {
    EXPECT_THAT(driver.One(name).ints,
                ElementsAre(Pair("arg.group_id", 7), Pair("arg.truncated", 8),
                            Pair("true_start_ns", -1000), Pair("truncated", 1)));
    EXPECT_THAT(driver.One(name).texts, ElementsAre(Pair("ratio", "nan")));
    EXPECT_TRUE(driver.One(name).doubles.empty());
  }
  EXPECT_THAT(driver.One("group_id").doubles, ElementsAre(Pair("arg.group_id", 12)));
  EXPECT_THAT(driver.One("scope/test_loss").doubles, ElementsAre(Pair("test_loss", 12)));
}

TEST_F(TraceWriterTest, WhatIsOutsideOfTheWindowIsCountedAndEdgesAreClipped) {
  KeepSink();
  SessionDriver driver(&collector_, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  const int64_t zero = session_.begin_monotonic_ns;
  EXPECT_EQ(
      Add({Span("before", zero - 50 * kUs, 10 * kUs), Span("over the begin", zero - kUs, 3 * kUs),
           Span("over the end", zero + 90 * kUs, 50 * kUs), Span("after", zero + 101 * kUs, kUs),
           Span("far", INT64_MAX, INT64_MAX), Span("long ago", INT64_MIN, 5),
           Span("always", INT64_MIN, INT64_MAX)}),
      0);
  const CollectorReport& report = driver.StopAt(driver.map().zero_ticks() + 100 * kUs);
  EXPECT_EQ(report.attempted, 7u);
  EXPECT_EQ(report.outside, 5u);
  driver.ExpectIdentity();
  const ReadEvent begin = driver.One("over the begin");
  EXPECT_EQ(begin.start_ps, 0);
  EXPECT_EQ(begin.ints.at("truncated"), 1);
  EXPECT_EQ(begin.ints.at("true_start_ns"), -1000);
  const ReadEvent end = driver.One("over the end");
  EXPECT_NEAR(static_cast<double>(end.end_ps()), 100e6, 2000);
  EXPECT_NEAR(static_cast<double>(end.ints.at("true_end_ns")), 140'000, 2);
}

TEST_F(TraceWriterTest, TimesOfRealtime) {
  FakeProvider provider;
  ProviderCollector collector("net", 0);
  ProviderCallbacks callbacks = provider.callbacks();
  callbacks.realtime = true;
  ASSERT_TRUE(collector.Register(callbacks).ok());
  SessionDriver driver(&collector, kMonotonic);
  provider.On("stop", [&](const jobscope_provider_session& session) {
    const jobscope_provider_event event = Span("send", session.begin_realtime_ns + 5 * kUs, kUs);
    EXPECT_EQ(session.sink->add(session.sink, &event, 1), 0);
  });
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  driver.StopAt(driver.map().zero_ticks() + 100 * kUs);
  EXPECT_NEAR(static_cast<double>(driver.One("send").start_ps), 5e6, 2000);
}

TEST_F(TraceWriterTest, LongTextsAreCutBetweenCharacters) {
  KeepSink();
  SessionDriver driver(&collector_, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  std::string name(1023, 'x');
  name += "\xc3\xa4 and more";  // its second byte is the 1,025th
  EXPECT_EQ(Add({Span(name.c_str(), session_.begin_monotonic_ns, 1)}), 0);
  driver.Stop();
  driver.One(std::string(1023, 'x'));
}

TEST_F(TraceWriterTest, LinesAreBounded) {
  KeepSink();
  SessionDriver driver(&collector_, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  std::vector<std::string> names;
  for (size_t i = 0; i < provider::TraceWriter::kMaxLines + 5; ++i) {
    names.push_back("line " + std::to_string(i));
  }
  std::vector<jobscope_provider_event> events;
  for (const std::string& name : names) {
    events.push_back(Span("e", session_.begin_monotonic_ns, 1));
    events.back().line = name.c_str();
  }
  EXPECT_EQ(Add(events), 0);
  EXPECT_THAT(driver.Stop().lost_by_cause, ElementsAre(Pair(LossCause::kTooManyLines, 5u)));
  driver.ExpectIdentity();
}

}  // namespace
}  // namespace jobscope
