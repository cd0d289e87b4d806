// SPDX-License-Identifier: Apache-2.0
#include "collectors/provider/provider_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tensorflow/xplane.pb.h"
#include "tests/collectors/host/session_driver.h"
#include "tests/collectors/provider/fake_provider.h"
#include "tests/collectors/provider/provider_fixture.h"
#include "tests/collectors/throwing_sink.h"

namespace jobscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr bool kMonotonic = false;
constexpr int64_t kUs = 1000;

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

// As in the recorder's events: docs/trace_format.md.
TEST_F(ProviderCollectorTest, NamesAndNumbersThatViewersMisreadAreChanged) {
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

TEST_F(ProviderCollectorTest, WhatIsOutsideOfTheWindowIsCountedAndEdgesAreClipped) {
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

TEST_F(ProviderCollectorTest, TimesOfRealtime) {
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

TEST_F(ProviderCollectorTest, LongTextsAreCutBetweenCharacters) {
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
        if (Add({Span("work", static_cast<int64_t>(MonotonicNs()), 100)}) == 0) ++given;
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
TEST_F(ProviderCollectorTest, WhatCameAfterAnEndThatIsToldLateIsOutside) {
  KeepSink();
  SessionDriver driver(&collector_, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  EXPECT_EQ(Add({Span("in", static_cast<int64_t>(MonotonicNs()), 1)}), 0);
  const uint64_t end = driver.Now() + 1000;
  while (driver.Now() <= end) {
  }
  EXPECT_EQ(Add({Span("after", static_cast<int64_t>(MonotonicNs()), 1)}), 0);
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

TEST_F(ProviderCollectorTest, LinesAreBounded) {
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

TEST_F(ProviderCollectorTest, ReasonsOfFailuresAreTold) {
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

// Takes one item at a time, when it may.
class SlowSink : public xspace::ItemSink {
 public:
  bool Append(xspace::ItemKind, std::string_view) override {
    std::unique_lock<std::mutex> lock(mutex_);
    entered_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    return true;
  }
  bool Full() const override { return false; }
  void AwaitAppend() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return entered_; });
  }
  void Open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool entered_ = false;
  bool open_ = false;
};

// However large it is: who asks for the state of this worker waits for nobody.
TEST_F(ProviderCollectorTest, AnXSpaceThatIsMergedHoldsNobodyUp) {
  provider_.On("stop", [](const jobscope_provider_session& session) {
    tensorflow::profiler::XSpace space;
    auto* const plane = space.add_planes();
    plane->set_name("/device:CUSTOM:nic");
    plane->add_lines()->add_events();
    const std::string bytes = space.SerializeAsString();
    EXPECT_EQ(session.sink->add_xspace(session.sink, bytes.data(), bytes.size(), nullptr, 0), 0);
  });
  SlowSink sink;
  xspace::Names names(&sink);
  SessionDriver driver(&collector_, kMonotonic);
  driver.request().sink = &sink;
  driver.request().names = &names;
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  std::thread session([&] { (void)collector_.Stop(driver.Now()); });
  sink.AwaitAppend();
  EXPECT_EQ(collector_.Describe().state, CollectorState::kOn);
  EXPECT_EQ(collector_.LostSoFar(), 0u);
  EXPECT_EQ(collector_.Register(provider_.callbacks()).code(), absl::StatusCode::kAlreadyExists);
  sink.Open();
  session.join();
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

TEST_F(ProviderCollectorTest, AnXSpaceOfTheStopIsMerged) {
  KeepSink();
  provider_.On("stop", [](const jobscope_provider_session& session) {
    tensorflow::profiler::XSpace space;
    auto* const plane = space.add_planes();
    plane->set_name("/device:CUSTOM:nic");
    auto* const line = plane->add_lines();
    line->set_id(1);
    line->set_name("port 0");
    line->set_timestamp_ns(session.begin_realtime_ns);
    (*plane->mutable_event_metadata())[7].set_id(7);
    (*plane->mutable_event_metadata())[7].set_name("send");
    for (const int64_t offset_ps : {int64_t{2'000'000}, int64_t{900'000'000'000}}) {
      auto* const event = line->add_events();
      event->set_metadata_id(7);
      event->set_offset_ps(offset_ps);
      event->set_duration_ps(1'000'000);
    }
    const std::string bytes = space.SerializeAsString();
    char error[200] = "";
    EXPECT_EQ(
        session.sink->add_xspace(session.sink, bytes.data(), bytes.size(), error, sizeof(error)), 0)
        << error;
    EXPECT_EQ(session.sink->add_xspace(session.sink, "\x0a\x7f", 2, error, sizeof(error)),
              JOBSCOPE_E_INVALID);
    EXPECT_STRNE(error, "");
  });
  SessionDriver driver(&collector_, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  char error[200] = "";
  EXPECT_EQ(session_.sink->add_xspace(session_.sink, "", 0, error, sizeof(error)),
            JOBSCOPE_E_STATE);
  EXPECT_THAT(error, HasSubstr("inside of stop()"));
  const CollectorReport& report = driver.StopAt(driver.map().zero_ticks() + 1000 * kUs);
  EXPECT_EQ(report.outside, 1u);
  driver.ExpectIdentity();
  const ReadEvent send = driver.One("send");
  EXPECT_EQ(send.plane, "/device:CUSTOM:nic");
  EXPECT_EQ(send.line, "port 0");
  // By REALTIME, which the test reads some microseconds apart.
  EXPECT_NEAR(static_cast<double>(send.start_ps), 2e6, 100e6);
}

}  // namespace
}  // namespace jobscope
