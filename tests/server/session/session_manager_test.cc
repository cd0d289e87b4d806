// SPDX-License-Identifier: Apache-2.0
#include "server/session/session_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <future>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/xspace/assemble/assembler.h"
#include "jobscope/detail/ticks.h"
#include "tensorflow/xplane.pb.h"
#include "tests/server/session/fake_collector.h"
#include "tests/server/session/session_fixture.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class StringSink : public xspace::ByteSink {
 public:
  absl::Status Write(std::string_view bytes, bool /*stable*/) override {
    this->bytes.append(bytes);
    return absl::OkStatus();
  }
  std::string bytes;
};

tensorflow::profiler::XSpace Assemble(const SessionResult& result) {
  const std::vector<xspace::ItemView> items = result.store->Items();
  xspace::AssembleOptions options;
  options.hostname = "worker_1";
  auto assembler = xspace::Assembler::Create(items, options);
  EXPECT_TRUE(assembler.ok()) << assembler.status();
  StringSink sink;
  EXPECT_TRUE(assembler->Write(0, &sink).ok());
  tensorflow::profiler::XSpace space;
  EXPECT_TRUE(space.ParseFromString(sink.bytes));
  return space;
}

TEST_F(SessionTest, RunsTheVerbsInOrderAndDeliversATrace) {
  Make({&a_});
  const SessionResult result = Submit(For(absl::Milliseconds(20), "s1")).Get();
  ASSERT_TRUE(result.status.ok()) << result.status;
  std::vector<std::string> calls = a_.calls();
  calls.erase(std::remove(calls.begin(), calls.end(), "drain"), calls.end());
  EXPECT_THAT(calls, ElementsAre("arm", "start", "stop", "report"));
  EXPECT_EQ(result.summary.session_id(), "s1");
  EXPECT_EQ(result.summary.ended_by(), "duration");
  EXPECT_FALSE(result.summary.truncated());
  EXPECT_EQ(result.summary.attempted(), 3u);
  EXPECT_EQ(result.summary.events(), 1u);
  EXPECT_EQ(result.summary.lost(), 2u);
  EXPECT_EQ(result.summary.steps(), 1u);
  EXPECT_NEAR(static_cast<double>(result.summary.duration_ns()), 20e6, 1e4);
  const tensorflow::profiler::XSpace space = Assemble(result);
  EXPECT_EQ(space.hostnames(0), "worker_1");
  bool found = false;
  for (const auto& plane : space.planes()) found |= plane.name() == "/host:a";
  EXPECT_TRUE(found);
  // The slot is free right after the answer, on the session's thread.
  EXPECT_TRUE(Becomes([this] { return !manager_->busy().has_value(); }));
}

// Produces events without end.
class FloodingCollector : public FakeCollector {
 public:
  using FakeCollector::FakeCollector;
  absl::Status Arm(const ArmRequest& request) override {
    sink_ = request.sink;
    return FakeCollector::Arm(request);
  }
  absl::Duration Drain() override {
    if (!sink_->Append(xspace::ItemKind::kEvents, std::string(50'000, 'e'))) ++refused_;
    return absl::Milliseconds(1);
  }
  CollectorReport Report() override {
    CollectorReport report;
    report.attempted = refused_;
    report.lost_by_cause[LossCause::kStoreFull] = refused_;
    return report;
  }
  bool refused() const { return refused_ > 0; }

 private:
  xspace::ItemSink* sink_ = nullptr;
  std::atomic<uint64_t> refused_{0};
};

TEST_F(SessionTest, ATraceEndsAtItsCeiling) {
  FloodingCollector flood("flood");
  Make({&flood});
  SessionOptions options = For(absl::Minutes(10), "flooded");
  options.max_trace_bytes = 2 << 20;
  const SessionResult result = Submit(std::move(options)).Get();
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.summary.ended_by(), "max_trace_bytes");
  EXPECT_TRUE(result.summary.truncated());
  EXPECT_THAT(result.summary.warnings(), Contains(HasSubstr("JOBSCOPE_MAX_TRACE_MB")));
  EXPECT_LE(result.store->appended_bytes(), (2U << 20) + 10'000U);
  ASSERT_EQ(result.summary.lost_by_cause_size(), 1);
  EXPECT_EQ(result.summary.lost_by_cause(0).cause(), "max_trace");
  EXPECT_THAT(result.summary.warnings(), Each(Not(HasSubstr("JOBSCOPE_STORE_MB"))));
}

TEST_F(SessionTest, AFullStoreIsReportedWithTheSettingThatRaisesIt) {
  for (const char* setting : {"JOBSCOPE_STORE_MB", "max_trace_bytes"}) {
    FloodingCollector flood("flood");
    Make({&flood});
    SessionOptions options = For(absl::InfiniteDuration(), "flooded");
    options.store_bytes = 1 << 20;
    options.store_setting = setting;
    options.max_trace_bytes = 1 << 30;
    Pending pending = Submit(std::move(options));
    ASSERT_TRUE(Becomes([&] { return flood.refused(); }));
    manager_->Stop("flooded");
    const SessionResult result = pending.Get();
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_THAT(result.summary.warnings(),
                Contains(AllOf(HasSubstr("store of 1 MiB was full"), HasSubstr(setting))));
    ASSERT_EQ(result.summary.lost_by_cause_size(), 1);
    EXPECT_EQ(result.summary.lost_by_cause(0).cause(), "store_full");
    EXPECT_THAT(result.summary.warnings(), Each(Not(HasSubstr("JOBSCOPE_MAX_TRACE_MB"))));
  }
}

TEST_F(SessionTest, StartsAtTheCommandedInstant) {
  Make({&a_});
  // On a busy machine the session may reach its instant late; a later one it reaches in time.
  for (absl::Duration ahead = absl::Milliseconds(300);; ahead *= 2) {
    SessionOptions options = For(absl::Milliseconds(5));
    const int64_t start = absl::ToUnixNanos(absl::Now() + ahead);
    options.start_unix_ns = start;
    const SessionResult result = Submit(std::move(options)).Get();
    ASSERT_TRUE(result.status.ok());
    EXPECT_NEAR(static_cast<double>(result.summary.zero_unix_ns() - start), 0, 2e4);
    if (result.summary.late_ns() == 0) break;
    ASSERT_LT(ahead, absl::Seconds(10)) << "late by " << result.summary.late_ns() << " ns";
  }
}

TEST_F(SessionTest, AStartInThePastIsLateAndSaysSo) {
  Make({&a_});
  SessionOptions options = For(absl::Milliseconds(5));
  options.start_unix_ns = absl::ToUnixNanos(absl::Now() - absl::Seconds(1));
  const SessionResult result = Submit(std::move(options)).Get();
  ASSERT_TRUE(result.status.ok());
  EXPECT_GE(result.summary.late_ns(), 1'000'000'000u);
  // Times count from the commanded instant, but the window begins only now.
  const StartRequest start = a_.start_request();
  EXPECT_GE(start.map.ToPs(start.start_ticks), 1'000'000'000'000);
}

// The steps in the trace, from any source.
TEST_F(SessionTest, MarkedStepsWinOverInferredOnes) {
  const auto inferred_from = [this] {
    return Submit(For(absl::Milliseconds(5))).Get().summary.steps_inferred_from();
  };
  Make({&a_, &b_});
  EXPECT_EQ(inferred_from(), "");
  a_.set_steps(0, "");
  b_.set_steps(3, "PjitFunction(step)");
  EXPECT_EQ(inferred_from(), "PjitFunction(step)");
  a_.set_steps(1, "");
  EXPECT_EQ(inferred_from(), "");
  a_.set_steps(2, "optimizer step");
  EXPECT_EQ(inferred_from(), "optimizer step");
  a_.set_steps(2, "f(\xc3");
  EXPECT_EQ(inferred_from(), "f(?") << "one invalid byte makes the summary unreadable";
  b_.set_steps(1, "");
  EXPECT_EQ(inferred_from(), "");
}

TEST_F(SessionTest, LookbackIsGrantedAsFarAsTheCollectorsReach) {
  Make({&a_, &b_});
  const uint64_t held = detail::ReadTicks(true);
  a_.set_oldest_ticks(held);
  SessionOptions options = For(absl::ZeroDuration());
  options.lookback = absl::Hours(1);
  const SessionResult result = Submit(std::move(options)).Get();
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(a_.start_request().start_ticks, held);
  EXPECT_EQ(result.summary.duration_ns(), result.summary.lookback_ns());
  EXPECT_GT(result.summary.lookback_ns(), 0u);
}

TEST_F(SessionTest, AStepWindowsZeroIsItsOpening) {
  a_.set_watches_steps(true);
  Make({&a_, &b_});
  const uint64_t open = detail::ReadTicks(true) + 1'000'000'000;
  a_.OpenStepWindowAt(open, open + 5'000'000);
  SessionOptions options = For(absl::InfiniteDuration());
  options.steps = StepRange{10, 20};
  const SessionResult result = Submit(std::move(options)).Get();
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.summary.ended_by(), "steps");
  EXPECT_FALSE(result.summary.truncated());
  EXPECT_EQ(b_.start_request().start_ticks, open) << "others start when the window opens";
  EXPECT_EQ(a_.end_ticks(), open + 5'000'000);
  EXPECT_EQ(b_.end_ticks(), open + 5'000'000);
}

TEST_F(SessionTest, AStepWindowThatNeverOpensSaysSo) {
  a_.set_watches_steps(true);
  Make({&a_, &b_});
  SessionOptions options = For(absl::Milliseconds(30));
  options.steps = StepRange{10, 20};
  const SessionResult result = Submit(std::move(options)).Get();
  ASSERT_TRUE(result.status.ok());
  EXPECT_TRUE(result.summary.truncated());
  ASSERT_GE(result.summary.warnings_size(), 1);
  EXPECT_THAT(result.summary.warnings(0), HasSubstr("no step with a number of 10 or more"));
}

// More time is the remedy only where the time was over.
TEST_F(SessionTest, AWaitForStepsThatWasStoppedNeedsNoMoreTime) {
  a_.set_watches_steps(true);
  Make({&a_});
  for (const bool stopped : {false, true}) {
    SessionOptions options = For(stopped ? absl::Hours(1) : absl::Milliseconds(30), "steps");
    options.steps = StepRange{10, 20, /*by_ordinal=*/true};
    Pending session = Submit(std::move(options));
    if (stopped) {
      ASSERT_TRUE(a_.AwaitCalls("start", 2));
      manager_->Stop("steps");
    }
    const SessionResult result = session.Get();
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_TRUE(result.summary.truncated());
    EXPECT_THAT(result.summary.warnings(), Contains(HasSubstr("had not begun its step 10")));
    EXPECT_EQ(result.summary.ended_by(), stopped ? "request" : "duration");
    const auto raise = Contains(HasSubstr("--max_duration_ms"));
    if (stopped) {
      EXPECT_THAT(result.summary.warnings(), Not(raise));
    } else {
      EXPECT_THAT(result.summary.warnings(), raise);
    }
  }
}

// It would wait for ever, and nobody could capture meanwhile.
TEST_F(SessionTest, StepsThatNoCollectorWatchesAreRefused) {
  FakeCollector watcher("watcher");
  watcher.set_watches_steps(true);
  const auto refusal = [this] {
    SessionOptions options = For(absl::InfiniteDuration(), "steps");
    options.steps = StepRange{10, 20};
    std::atomic<bool> started{false};
    std::promise<SessionResult> done;
    SessionCallbacks callbacks;
    callbacks.started = [&started](const SessionStarted& /*started*/) { started = true; };
    callbacks.done = [&done](SessionResult result) {
      result.slot.reset();
      done.set_value(std::move(result));
    };
    manager_->Submit(std::move(options), WhenBusy::kWait, absl::InfiniteFuture(),
                     std::move(callbacks));
    std::future<SessionResult> result = done.get_future();
    const bool ended = result.wait_for(kTimeout) == std::future_status::ready;
    EXPECT_TRUE(ended) << "it waits for steps";
    if (!ended) manager_->Stop("steps");
    const absl::Status status = result.get().status;
    EXPECT_FALSE(started);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    return std::string(status.message());
  };
  for (const std::string verb : {"arm", "start"}) {
    FakeCollector failing("watcher");
    failing.set_watches_steps(true);
    failing.FailIn(verb, absl::FailedPreconditionError("its library is missing"));
    Make({&failing, &b_});
    EXPECT_THAT(refusal(), HasSubstr("watcher: its library is missing"));
    EXPECT_TRUE(Submit(For(absl::Milliseconds(1))).Get().status.ok()) << "the slot is free";
  }
  watcher.HangIn("start");
  Make({&watcher, &b_});
  EXPECT_THAT(refusal(), HasSubstr("watcher: it did not return from the verb start in time"));
  EXPECT_TRUE(Submit(For(absl::Milliseconds(1))).Get().status.ok()) << "the slot is free";
  EXPECT_THAT(refusal(), HasSubstr("watcher: it still hangs in the verb start"));
  watcher.Release();
  watcher.set_off("nobody wants it");
  Make({&watcher, &b_});
  EXPECT_THAT(refusal(), HasSubstr("watcher: nobody wants it"));
  Make({&b_});
  EXPECT_THAT(refusal(), HasSubstr("no collector"));
}

}  // namespace
}  // namespace jobscope
