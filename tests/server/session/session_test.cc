// SPDX-License-Identifier: Apache-2.0
#include "server/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "common/clock/clock.h"
#include "common/xspace/assemble/assembler.h"
#include "jobscope/detail/ticks.h"
#include "tensorflow/xplane.pb.h"
#include "tests/server/session/fake_collector.h"
#include "tests/server/session/session_fixture.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
    (void)sink_->Append(xspace::ItemKind::kEvents, std::string(50'000, 'e'));
    return absl::Milliseconds(1);
  }

 private:
  xspace::ItemSink* sink_ = nullptr;
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
}

int ThreadCount() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

// After a first thread: ThreadSanitizer starts one of its own with it.
const int kThreadsAtStart = [] {
  std::thread([] {}).join();
  return ThreadCount();
}();

// Threads of sessions end a little after their callback.
bool AwaitNoThreadOfOurs() {
  return Becomes([] { return ThreadCount() <= kThreadsAtStart; });
}

TEST_F(SessionTest, CollectorThatIsOffGetsNoVerbAndNoThread) {
  ASSERT_TRUE(AwaitNoThreadOfOurs());
  a_.set_off("nobody wants it");
  b_.HangIn("arm");
  Make({&a_, &b_});
  Pending session = Submit(For(absl::ZeroDuration()));
  ASSERT_TRUE(b_.AwaitCalls("arm", 1));
  EXPECT_EQ(ThreadCount(), kThreadsAtStart + 2) << "more than the session's and b's";
  b_.Release();
  const SessionResult result = session.Get();
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(a_.calls(), IsEmpty());
  ASSERT_EQ(result.summary.collectors_size(), 2);
  EXPECT_EQ(result.summary.collectors(0).state(), "on");
  EXPECT_EQ(result.summary.collectors(1).name(), "a");
  EXPECT_EQ(result.summary.collectors(1).state(), "off");
  EXPECT_EQ(result.summary.collectors(1).reason(), "nobody wants it");
  EXPECT_EQ(result.summary.warnings_size(), 0);
}

TEST_F(SessionTest, LeavesNoThreadBehind) {
  ASSERT_TRUE(AwaitNoThreadOfOurs()) << "of an earlier test";
  Make({&a_, &b_});
  EXPECT_EQ(ThreadCount(), kThreadsAtStart) << "an idle manager needs no thread";
  Submit(For(absl::Milliseconds(1))).Get();
  EXPECT_TRUE(AwaitNoThreadOfOurs());
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

// Whatever bytes a collector's reason is made of, the summary stays a message.
TEST_F(SessionTest, AReasonThatIsNoUtf8CostsNothingElse) {
  Make({&a_, &b_});
  b_.FailIn("arm", absl::InternalError("lib\xff.so"));
  const SessionResult result = Submit(For(absl::Milliseconds(1))).Get();
  ASSERT_TRUE(result.status.ok());
  v1::Summary parsed;
  ASSERT_TRUE(parsed.ParseFromString(result.summary.SerializeAsString()));
  EXPECT_EQ(parsed.collectors(1).reason(), "lib?.so");
}

// Fills the store, and has more to say than is left of it.
class VerboseCollector : public FakeCollector {
 public:
  using FakeCollector::FakeCollector;
  absl::Status Arm(const ArmRequest& request) override {
    sink_ = request.sink;
    return FakeCollector::Arm(request);
  }
  absl::Status Stop(uint64_t end_ticks) override {
    const absl::Status status = FakeCollector::Stop(end_ticks);
    while (sink_->Append(xspace::ItemKind::kEvents, std::string(60'000, 'x'))) {
    }
    return status;
  }
  CollectorReport Report() override {
    CollectorReport report = FakeCollector::Report();
    for (int64_t tid = 1; tid <= 1'000; ++tid) {
      report.threads.push_back({tid, std::string(63, 'n'), 1'000'000, 1'000'000, 0, 0});
    }
    return report;
  }

 private:
  xspace::ItemSink* sink_ = nullptr;
};

// What it still writes, once it returns, goes nowhere.
TEST_F(SessionTest, AHungCollectorKeepsNoMemoryOfTheStore) {
  VerboseCollector verbose("verbose");
  Make({&a_, &verbose});
  a_.HangIn("stop");
  SessionResult result = Submit(For(absl::Milliseconds(1))).Get();
  ASSERT_TRUE(result.status.ok()) << result.status;
  const xspace::Store* const store = result.store.get();  // the hung one keeps its shell
  EXPECT_GT(store->mapped_bytes(), 3u << 20);
  result.store.reset();
  EXPECT_TRUE(Becomes([&] { return store->mapped_bytes() == 0; }));
  a_.Release();
  EXPECT_TRUE(Becomes([this] { return manager_->DescribeCollectors()[0].state() == "on"; }));
}

TEST_F(SessionTest, AnAccountThatDoesNotFitCostsNoTrace) {
  VerboseCollector verbose("verbose");
  Make({&verbose});
  SessionOptions options = For(absl::Milliseconds(1));
  options.store_bytes = 1 << 20;
  const SessionResult result = Submit(std::move(options)).Get();
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.summary.threads_size(), 0);
  EXPECT_EQ(result.summary.events(), 1u);
  EXPECT_THAT(result.summary.warnings(), Contains(HasSubstr("no room for the account")));
}

TEST_F(SessionTest, AStopDeliversWhatThereIs) {
  Make({&a_});
  Pending pending = Submit(For(absl::Hours(1), "long"));
  ASSERT_TRUE(a_.AwaitCalls("start", 1));
  EXPECT_FALSE(manager_->Stop("another").has_value());
  EXPECT_EQ(manager_->Stop("long"), "long");
  const SessionResult result = pending.Get();
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.summary.ended_by(), "request");
  EXPECT_TRUE(result.summary.truncated());
  EXPECT_LT(result.summary.duration_ns(), 3'600'000'000'000u);
  EXPECT_EQ(result.summary.events(), 1u);
}

TEST_F(SessionTest, AStopBeforeTheStartInstantEndsAtOnce) {
  Make({&a_});
  SessionOptions options = For(absl::Seconds(1), "early");
  options.start_unix_ns = absl::ToUnixNanos(absl::Now() + absl::Hours(1));
  Pending pending = Submit(std::move(options));
  ASSERT_TRUE(a_.AwaitCalls("arm", 1));
  while (!manager_->Stop("").has_value()) std::this_thread::yield();
  const SessionResult result = pending.Get();
  ASSERT_TRUE(result.status.ok());
  EXPECT_TRUE(result.summary.truncated());
}

TEST_F(SessionTest, ACancelledSessionIsDroppedAndFreesTheSlot) {
  Make({&a_});
  Pending pending = Submit(For(absl::Hours(1)));
  ASSERT_TRUE(a_.AwaitCalls("start", 1));
  manager_->Cancel(pending.ticket);
  EXPECT_EQ(pending.Get().status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(a_.AwaitCalls("stop", 1)) << "a cancelled session must stop its collectors";
  EXPECT_TRUE(Submit(For(absl::Milliseconds(1))).Get().status.ok());
}

TEST_F(SessionTest, ASecondCallerIsRefusedWithWhoAndHowLong) {
  Make({&a_});
  Pending first = Submit(For(absl::Hours(1), "first"));
  ASSERT_TRUE(a_.AwaitCalls("start", 1));
  const absl::Status refused = Submit(For(absl::Seconds(1)), WhenBusy::kRefuse).Get().status;
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("\"first\", asked for by test"));
  const auto busy = manager_->busy();
  ASSERT_TRUE(busy.has_value());
  EXPECT_EQ(busy->session_id(), "first");
  EXPECT_GT(busy->remaining_ms(), 3'500'000u);
  manager_->Stop("");
  first.Get();
}

TEST_F(SessionTest, ASecondCallerIsRefusedWhileACollectorHangs) {
  // What the collector is when the second caller is told.
  const auto state_when_told = [this](const std::string& verb) {
    FakeCollector hanging("hanging");
    hanging.HangIn(verb);
    Make({&hanging});
    Pending first = Submit(For(absl::ZeroDuration()));
    EXPECT_TRUE(hanging.AwaitCalls(verb, 1));
    std::promise<std::string> told;
    SessionCallbacks callbacks;
    callbacks.done = [&](const SessionResult& result) {
      EXPECT_EQ(result.status.code(), absl::StatusCode::kAlreadyExists);
      told.set_value(manager_->DescribeCollectors()[0].state());
    };
    manager_->Submit(For(absl::Seconds(1)), WhenBusy::kRefuse, absl::InfiniteFuture(),
                     std::move(callbacks));
    const std::string state = told.get_future().get();
    hanging.Release();
    first.Get();
    EXPECT_TRUE(manager_->Shutdown(absl::Seconds(60)));
    return state;
  };
  for (const std::string verb : {"arm", "stop"}) {
    std::string state;
    // Asked again where this thread itself has slept through the deadline.
    for (int i = 0; i < 5 && state != "on"; ++i) state = state_when_told(verb);
    EXPECT_EQ(state, "on") << "only after the deadline of " << verb;
  }
}

TEST_F(SessionTest, CallersInLineAreServedInOrder) {
  Make({&a_});
  Pending first = Submit(For(absl::Hours(1), "1"));
  Pending second = Submit(For(absl::Milliseconds(1), "2"));
  Pending third = Submit(For(absl::Milliseconds(1), "3"));
  ASSERT_TRUE(a_.AwaitCalls("start", 1));
  EXPECT_EQ(manager_->busy()->waiting(), 2u);
  EXPECT_FALSE(second.Ready());
  manager_->Stop("1");
  EXPECT_EQ(first.Get().summary.session_id(), "1");
  EXPECT_EQ(second.Get().summary.session_id(), "2");
  EXPECT_EQ(third.Get().summary.session_id(), "3");
}

TEST_F(SessionTest, ACallerThatLeavesTheLineIsAnsweredAtOnce) {
  Make({&a_});
  Pending first = Submit(For(absl::Hours(1)));
  ASSERT_TRUE(a_.AwaitCalls("start", 1));
  Pending second = Submit(For(absl::Seconds(1)));
  manager_->Cancel(second.ticket);
  EXPECT_EQ(second.Get().status.code(), absl::StatusCode::kCancelled);
  Pending third = Submit(For(absl::Seconds(1)), WhenBusy::kWait, absl::Now() + absl::Seconds(1.1));
  EXPECT_EQ(third.Get().status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(first.Ready());
  manager_->Stop("");
  EXPECT_TRUE(first.Get().status.ok());
}

// The fake hangs in each verb: the other collector's trace comes, and the next session goes on
// without the hung one.
class WedgedTest : public SessionTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(WedgedTest, IsLeftAloneUntilItReturns) {
  const std::string verb = GetParam();
  Make({&a_, &b_});
  a_.HangIn(verb);
  // A busy machine may not come to drain in 10 ms.
  Pending pending = Submit(For(verb == "drain" ? absl::Hours(1) : absl::Milliseconds(10)));
  if (verb == "drain") {
    ASSERT_TRUE(a_.AwaitCalls(verb, 1));
    manager_->Stop("");
  }
  const SessionResult result = pending.Get();
  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.summary.collectors_size(), 2);
  EXPECT_EQ(result.summary.collectors(0).state(), "wedged");
  EXPECT_THAT(result.summary.collectors(0).reason(), HasSubstr("did not return from the verb"));
  EXPECT_EQ(result.summary.collectors(1).state(), "on");
  EXPECT_EQ(result.summary.events(), 1u);
  // What hangs before it has recorded has lost nothing.
  EXPECT_EQ(result.summary.collectors(0).account_unknown(), verb != "arm");
  EXPECT_FALSE(result.summary.collectors(1).account_unknown());
  EXPECT_EQ(manager_->DescribeCollectors()[0].state(), "wedged");

  const size_t calls_while_wedged = a_.calls().size();
  const SessionResult without = Submit(For(absl::Milliseconds(10))).Get();
  EXPECT_EQ(a_.calls().size(), calls_while_wedged) << "a wedged collector got a verb";
  EXPECT_EQ(without.summary.events(), 1u);
  bool said = false;
  for (const auto& state : without.summary.collectors()) {
    said |= state.name() == "a" && state.state() == "wedged";
  }
  EXPECT_TRUE(said);

  a_.Release();
  EXPECT_TRUE(Becomes([this] { return manager_->DescribeCollectors()[0].state() != "wedged"; }));
  const SessionResult again = Submit(For(absl::Milliseconds(10))).Get();
  EXPECT_EQ(again.summary.events(), 2u) << "it takes part again after it returned";
}
INSTANTIATE_TEST_SUITE_P(Verbs, WedgedTest,
                         ::testing::Values("arm", "start", "drain", "stop", "report"),
                         [](const auto& info) { return std::string(info.param); });

// On a machine with far too many threads one may not be run for a second.
TEST_F(SessionTest, ACollectorThatIsLateToStartRecordsWhatComesAfter) {
  Make({&a_, &b_});
  a_.HangIn("start");
  Pending session = Submit(For(absl::InfiniteDuration(), "late"));
  ASSERT_TRUE(Becomes([this] { return State() == "recording"; })) << "it holds the others up";
  a_.Release();
  ASSERT_TRUE(a_.AwaitCalls("drain", 1));
  manager_->Stop("late");
  const SessionResult result = session.Get();
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.summary.collectors(0).state(), "on");
  EXPECT_EQ(result.summary.events(), 2u);
}

TEST_F(SessionTest, ACollectorThatFailsLeavesTheOthersUntouched) {
  Make({&a_, &b_});
  a_.FailIn("arm", absl::PermissionDeniedError("ask the administrator"));
  const SessionResult result = Submit(For(absl::Milliseconds(5))).Get();
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.summary.collectors(0).state(), "failed");
  EXPECT_EQ(result.summary.collectors(0).reason(), "ask the administrator");
  EXPECT_EQ(result.summary.collectors(1).state(), "on");
  EXPECT_THAT(a_.calls(), ElementsAre("arm", "report"));
  EXPECT_THAT(result.summary.warnings(0), HasSubstr("ask the administrator"));
}

// The steps that stand in the trace, whoever brought them.
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

TEST_F(SessionTest, ShutdownDeliversTheRunningSessionAndRefusesTheLine) {
  Make({&a_});
  Pending first = Submit(For(absl::Hours(1)));
  ASSERT_TRUE(a_.AwaitCalls("start", 1));
  Pending second = Submit(For(absl::Seconds(1)));
  EXPECT_TRUE(manager_->Shutdown(absl::Seconds(60)));
  const SessionResult result = first.Get();
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.summary.ended_by(), "shutdown");
  EXPECT_TRUE(result.summary.truncated());
  EXPECT_EQ(second.Get().status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Submit(For(absl::Seconds(1))).Get().status.code(), absl::StatusCode::kUnavailable);
}

// Cancels and stops at random points never lose the slot.
TEST_F(SessionTest, SurvivesAHundredRandomEnds) {
  Make({&a_, &b_});
  std::vector<Pending> pending;
  for (int i = 0; i < 100; ++i) {
    pending.push_back(Submit(For(absl::Milliseconds(i % 3 == 0 ? 1 : 100000), std::to_string(i))));
    for (int spin = (i * 7919) % 1000; spin > 0; --spin) std::this_thread::yield();
    if (i % 3 == 1) {
      manager_->Cancel(pending.back().ticket);
    } else if (i % 3 == 2) {
      while (!manager_->Stop(std::to_string(i)).has_value() && !pending.back().Ready()) {
        std::this_thread::yield();
      }
    }
  }
  for (Pending& one : pending) one.Get();
  EXPECT_TRUE(Submit(For(absl::Milliseconds(1))).Get().status.ok());
}

}  // namespace
}  // namespace jobscope
