// SPDX-License-Identifier: Apache-2.0
#include "collectors/provider/provider_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "tests/collectors/host/session_driver.h"
#include "tests/collectors/provider/fake_provider.h"
#include "tests/collectors/provider/provider_fixture.h"
#include "tests/collectors/throwing_sink.h"

namespace jobscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using ProviderCollectorTest = ProviderTest;

TEST_F(ProviderCollectorTest, EventsOfTheStopAreInTheTrace) {
  KeepSink();
  SessionDriver driver(&collector_, kMonotonic);
  driver.request().recording.python_tracer_level = 1;
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  const auto zero = static_cast<int64_t>(driver.map().zero_ticks());
  EXPECT_EQ(session_.begin_monotonic_ns, zero);
  EXPECT_NEAR(static_cast<double>(session_.begin_realtime_ns - RealtimeNs()), 0, 20e9);
  EXPECT_EQ(session_.end_monotonic_ns, 0);
  EXPECT_EQ(session_.host_tracer_level, 3);
  EXPECT_EQ(session_.python_tracer_level, 1);
  provider_.On("stop", [&](const jobscope_provider_session& session) {
    EXPECT_EQ(session.end_monotonic_ns, zero + 1000 * kUs);
    jobscope_provider_arg args[3] = {};
    args[0].key = "bytes";
    args[0].value.int64_value = -7;
    args[1].key = "ratio";
    args[1].type = JOBSCOPE_PROVIDER_DOUBLE;
    args[1].value.double_value = 0.5;
    args[2].key = "file";
    args[2].type = JOBSCOPE_PROVIDER_TEXT;
    args[2].value.text = "shard \xff";
    jobscope_provider_event flush = Span("flush", zero + 10 * kUs, 20 * kUs);
    flush.line = "writer";
    flush.args = args;
    flush.arg_count = 3;
    jobscope_provider_event here = Span("read", zero + 40 * kUs, 5 * kUs);
    here.thread_id = gettid();
    const jobscope_provider_event plain = Span("plain", zero + 50 * kUs, 0);
    jobscope_provider_event sample = Span("queue", zero + 60 * kUs, 0);
    sample.kind = JOBSCOPE_PROVIDER_COUNTER;
    sample.value = 12;
    const jobscope_provider_event all[] = {flush, here, plain, sample};
    EXPECT_EQ(session.sink->add(session.sink, all, 4), 0);
  });
  const CollectorReport& report = driver.StopAt(driver.map().zero_ticks() + 1000 * kUs);
  EXPECT_EQ(report.state, CollectorState::kOn);
  EXPECT_EQ(report.events, 4u);
  driver.ExpectIdentity();
  const ReadEvent flush = driver.One("flush");
  EXPECT_EQ(flush.plane, "/device:CUSTOM:disk");
  EXPECT_EQ(flush.line, "writer");
  EXPECT_NEAR(static_cast<double>(flush.start_ps), 10e6, 2000);
  EXPECT_EQ(flush.duration_ps, 20'000'000);
  EXPECT_THAT(flush.ints, ElementsAre(Pair("bytes", -7)));
  EXPECT_THAT(flush.doubles, ElementsAre(Pair("ratio", 0.5)));
  EXPECT_THAT(flush.texts, ElementsAre(Pair("file", "shard ?")));
  EXPECT_EQ(driver.One("read").plane, "/host:CPU");
  EXPECT_EQ(driver.One("read").line_id, gettid());
  EXPECT_EQ(driver.One("plain").line, "disk");
  EXPECT_EQ(driver.One("queue").line, "_counters_");
  EXPECT_THAT(driver.One("queue").doubles, ElementsAre(Pair("queue", 12)));
  EXPECT_THAT(provider_.calls(), ElementsAre("arm", "start", "stop"));
}

TEST_F(ProviderCollectorTest, WhatMakesNoSenseIsLostAndCounted) {
  KeepSink();
  SessionDriver driver(&collector_, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  const int64_t zero = session_.begin_monotonic_ns;
  jobscope_provider_event nan = Span("nan", zero, 0);
  nan.kind = JOBSCOPE_PROVIDER_COUNTER;
  nan.value = std::nan("");
  jobscope_provider_event kind = Span("kind", zero, 0);
  kind.kind = 9;
  jobscope_provider_event args = Span("args", zero, 0);
  args.arg_count = 3;
  jobscope_provider_arg arg = {};
  arg.key = "k";
  arg.type = 77;
  jobscope_provider_event type = Span("type", zero, 0);
  type.args = &arg;
  type.arg_count = 1;
  EXPECT_EQ(Add({Span(nullptr, zero, 1), Span("", zero, 1), Span("negative", zero, -1), nan, kind,
                 args, type, Span("good", zero, 1)}),
            0);
  EXPECT_EQ(collector_.LostSoFar(), 7u);
  jobscope_provider_event small = Span("small", zero, 1);
  small.size = 8;
  EXPECT_EQ(session_.sink->add(session_.sink, &small, 1), JOBSCOPE_E_INVALID);
  EXPECT_EQ(session_.sink->add(session_.sink, nullptr, 1), JOBSCOPE_E_INVALID);
  EXPECT_EQ(session_.sink->add(nullptr, &small, 1), JOBSCOPE_E_INVALID);
  EXPECT_EQ(session_.sink->add(session_.sink, nullptr, 0), 0);
  const CollectorReport& report = driver.Stop();
  EXPECT_THAT(report.lost_by_cause, ElementsAre(Pair(LossCause::kMalformed, 7u)));
  driver.ExpectIdentity();
  driver.One("good");
}

TEST_F(ProviderCollectorTest, EventsOfAllThreadsDuringTheSession) {
  KeepSink();
  SessionDriver driver(&collector_, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  std::atomic<bool> going{true};
  std::atomic<uint64_t> given{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 5000; ++n) {
        if (Add({Span("work", static_cast<int64_t>(WorkerMonotonicNs()), 100)}) == 0) ++given;
      }
      while (going) std::this_thread::yield();
    });
  }
  while (given < 20000) EXPECT_LT(driver.Drain(), absl::Seconds(1));
  going = false;
  for (std::thread& thread : threads) thread.join();
  const CollectorReport& report = driver.Stop();
  EXPECT_EQ(report.attempted, 20000u);
  EXPECT_EQ(report.events, 20000u);
  driver.ExpectIdentity();
  EXPECT_EQ(Add({Span("late", 0, 1)}), JOBSCOPE_E_STATE);
}

// The collector learns the end when it is over: later events must not be in the trace.
TEST_F(ProviderCollectorTest, WhatCameAfterAnEndThatIsReportedLateIsOutside) {
  KeepSink();
  SessionDriver driver(&collector_, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  EXPECT_EQ(Add({Span("in", static_cast<int64_t>(WorkerMonotonicNs()), 1)}), 0);
  const uint64_t end = driver.Now() + 1000;
  while (driver.Now() <= end) {
  }
  EXPECT_EQ(Add({Span("after", static_cast<int64_t>(WorkerMonotonicNs()), 1)}), 0);
  driver.Drain();
  const CollectorReport& report = driver.StopAt(end);
  EXPECT_EQ(report.outside, 1u);
  EXPECT_EQ(report.events, 1u);
  driver.One("in");
}

TEST_F(ProviderCollectorTest, AFloodDuringTheSessionIsBoundedAndCounted) {
  KeepSink();
  SessionDriver driver(&collector_, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  const std::vector<jobscope_provider_event> thousand(
      1000, Span("flood", session_.begin_monotonic_ns, 1));
  for (int i = 0; i < 200; ++i) EXPECT_EQ(Add(thousand), 0);
  EXPECT_GT(collector_.LostSoFar(), 0u);
  const CollectorReport& report = driver.Stop();
  EXPECT_EQ(report.attempted, 200'000u);
  EXPECT_GT(report.lost_by_cause.at(LossCause::kBufferFull), 100'000u);
  EXPECT_GT(report.events, 20'000u);
  driver.ExpectIdentity();
}

TEST_F(ProviderCollectorTest, AFloodInTheStopIsBoundedByTheStore) {
  SessionDriver driver(&collector_, kMonotonic);
  provider_.On("stop", [](const jobscope_provider_session& session) {
    const std::vector<jobscope_provider_event> thousand(
        1000, Span("flood", session.begin_monotonic_ns, 1));
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ(session.sink->add(session.sink, thousand.data(), thousand.size()), 0);
    }
  });
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  const CollectorReport& report = driver.Stop();
  EXPECT_EQ(report.events, 200'000u);
  driver.ExpectIdentity();

  SessionDriver small(&collector_, kMonotonic, /*store_bytes=*/1 << 20);
  ASSERT_TRUE(small.Arm().ok());
  ASSERT_TRUE(small.Start().ok());
  const CollectorReport& full = small.Stop();
  EXPECT_EQ(full.attempted, 200'000u);
  EXPECT_GT(full.lost_by_cause.at(LossCause::kStoreFull), 0u);
  small.ExpectIdentity();
}

TEST_F(ProviderCollectorTest, ReasonsOfFailuresAreReported) {
  provider_.FailIn("arm", "no such disk");
  {
    SessionDriver driver(&collector_, kMonotonic);
    EXPECT_EQ(driver.Arm().message(), "no such disk");
    EXPECT_EQ(collector_.Report().state, CollectorState::kOn);  // the session itself says "failed"
  }
  FakeProvider second;
  ProviderCollector collector("b", 0);
  ASSERT_TRUE(collector.Register(second.callbacks()).ok());
  second.FailIn("start", "");
  SessionDriver driver(&collector, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  EXPECT_THAT(std::string(driver.Start().message()), HasSubstr("start failed with code 1"));

  FakeProvider third;
  ProviderCollector other("c", 0);
  ASSERT_TRUE(other.Register(third.callbacks()).ok());
  third.FailIn("stop", "lost the connection");
  SessionDriver last(&other, kMonotonic);
  ASSERT_TRUE(last.Arm().ok());
  ASSERT_TRUE(last.Start().ok());
  const CollectorReport& report = last.Stop();
  EXPECT_EQ(report.state, CollectorState::kDegraded);
  EXPECT_EQ(report.reason, "lost the connection");
}

TEST_F(ProviderCollectorTest, WithoutMemoryNoEventIsWrittenTwiceAndTheAccountIsUnknown) {
  KeepSink();
  SessionDriver driver(&collector_, kMonotonic);
  ThrowingSink sink(driver.request().sink, "unlucky");
  xspace::Names names(&sink);
  driver.request().sink = &sink;
  driver.request().names = &names;
  provider_.On("stop", [this](const jobscope_provider_session& session) {
    const int64_t begin_ns = session.begin_monotonic_ns;
    EXPECT_EQ(Add({Span("lucky", begin_ns, 1), Span("unlucky", begin_ns, 1)}), JOBSCOPE_OK);
    // Encodes what there is as soon as the buffer is full.
    const std::vector<jobscope_provider_event> thousand(1000, Span("flood", begin_ns, 1));
    int code = JOBSCOPE_OK;
    for (int i = 0; i < 200 && code == JOBSCOPE_OK; ++i) code = Add(thousand);
    EXPECT_EQ(code, JOBSCOPE_E_INTERNAL);
  });
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  EXPECT_TRUE(driver.Stop().account_unknown);
  driver.One("lucky");
}

}  // namespace
}  // namespace jobscope
