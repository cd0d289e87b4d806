// SPDX-License-Identifier: Apache-2.0
//
// Allocations that fail on the threads of a session: the session or a collector fails, and says
// why; the process goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock/monotonic.h"
#include "tests/failing_memory.h"
#include "tests/server/session/session_fixture.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;

// A fake collector one of whose verbs throws, after it has done what it does.
class ThrowingCollector : public FakeCollector {
 public:
  using FakeCollector::FakeCollector;
  void ThrowIn(std::string verb) { throw_in_ = std::move(verb); }

  absl::Status Arm(const ArmRequest& request) override {
    return Throw("arm", FakeCollector::Arm(request));
  }
  absl::Status Start(const StartRequest& request) override {
    return Throw("start", FakeCollector::Start(request));
  }
  absl::Duration Drain() override { return Throw("drain", FakeCollector::Drain()); }
  absl::Status Stop(uint64_t end_ticks) override {
    return Throw("stop", FakeCollector::Stop(end_ticks));
  }
  CollectorReport Report() override {
    CollectorReport report = Throw("report", FakeCollector::Report());
    report.account_unknown = throw_in_ == "its own Stop";
    if (report.account_unknown) report.state = CollectorState::kFailed;
    return report;
  }

 private:
  template <typename Result>
  Result Throw(const char* verb, Result result) {
    if (throw_in_ == verb) throw std::bad_alloc();
    return result;
  }
  std::string throw_in_;
};

thread_local bool t_is_the_test = false;
bool IsTheTest() { return t_is_the_test; }
bool IsAnyThread() { return true; }

class OutOfMemoryTest : public SessionTest {
 protected:
  void SetUp() override { t_is_the_test = true; }

  static const v1::CollectorState& StateOf(const SessionResult& result, const std::string& name) {
    for (const v1::CollectorState& state : result.summary.collectors()) {
      if (state.name() == name) return state;
    }
    ADD_FAILURE() << "no collector " << name;
    return result.summary.collectors(0);
  }

  static int Count(const FakeCollector& collector, const std::string& verb) {
    const std::vector<std::string> calls = collector.calls();
    return static_cast<int>(std::count(calls.begin(), calls.end(), verb));
  }

  // Waits, at most 60 s, until the collector does not hang.
  bool AwaitFree(const std::string& name) const {
    return Becomes([&] {
      const std::vector<v1::CollectorState> states = manager_->DescribeCollectors();
      return std::none_of(states.begin(), states.end(), [&name](const v1::CollectorState& state) {
        return state.name() == name && state.state() == "wedged";
      });
    });
  }

  ThrowingCollector a_{"a"};
  FakeCollector b_{"b"};
};

TEST_F(OutOfMemoryTest, ACollectorThatThrowsHasFailedAndIsStopped) {
  Make({&a_, &b_});
  for (const char* const verb : {"arm", "start", "drain", "stop", "report"}) {
    a_.ThrowIn(verb);
    const int stops_before = Count(a_, "stop");
    const int drains_before = Count(a_, "drain");
    const int others_before = Count(b_, "drain");
    Pending pending = Submit(For(absl::InfiniteDuration(), verb));
    ASSERT_TRUE(b_.AwaitCalls("drain", others_before + 1));
    if (std::string(verb) == "drain") {
      ASSERT_TRUE(a_.AwaitCalls("drain", drains_before + 1));
    }
    manager_->Stop(verb);
    const SessionResult result = pending.Get();
    ASSERT_TRUE(result.status.ok()) << verb << ": " << result.status;
    EXPECT_EQ(StateOf(result, "a").state(), "failed") << verb;
    EXPECT_THAT(StateOf(result, "a").reason(), HasSubstr("no memory left")) << verb;
    // What it held when it threw is lost, and nobody has counted it.
    EXPECT_EQ(StateOf(result, "a").account_unknown(), std::string(verb) != "arm") << verb;
    EXPECT_EQ(StateOf(result, "b").state(), "on") << verb;
    EXPECT_FALSE(StateOf(result, "b").account_unknown()) << verb;
    EXPECT_TRUE(a_.AwaitCalls("stop", stops_before + 1)) << verb;
  }
  a_.ThrowIn("");
  const SessionResult result = Submit(For(absl::Milliseconds(1))).Get();
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(StateOf(result, "a").state(), "on");
}

// As the sampler of Python's stacks, which runs on a thread of its own.
TEST_F(OutOfMemoryTest, ACollectorMaySayThatItsLossesAreUnknown) {
  Make({&a_, &b_});
  a_.ThrowIn("its own Stop");
  const SessionResult result = Submit(For(absl::Milliseconds(1))).Get();
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(StateOf(result, "a").state(), "failed");
  EXPECT_TRUE(StateOf(result, "a").account_unknown());
}

TEST_F(OutOfMemoryTest, NoAllocationThatFailsEndsTheProcess) {
  Make({&a_, &b_});
  ASSERT_TRUE(Submit(For(absl::Milliseconds(1))).Get().status.ok());
  constexpr int kMostAllocations = 10'000;
  constexpr int kAll = 1'000'000;  // also those of the log lines about the others
  manager_->SetEvictor([] { throw std::bad_alloc(); });
  for (const int failures : {1, 4, kAll}) {
    int failed = 0;  // sessions with an allocation that failed
    const int step = std::min(failures, 4);
    for (int at = 1; at < kMostAllocations; at += step) {
      FailAllocations(at, failures);
      const SessionResult result = Submit(For(absl::Milliseconds(1))).Get();
      const bool met = StopFailing() < failures;
      if (!result.status.ok()) {
        EXPECT_EQ(result.status.code(), absl::StatusCode::kResourceExhausted) << result.status;
      }
      if (!met) break;  // a whole session has fewer allocations
      ++failed;
      ASSERT_TRUE(AwaitFree("a") && AwaitFree("b"));
      ASSERT_LT(at, kMostAllocations - step);
    }
    EXPECT_GT(failed, 20) << failures;
  }
  const SessionResult result = Submit(For(absl::Milliseconds(1))).Get();
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(StateOf(result, "a").state(), "on");
  EXPECT_EQ(StateOf(result, "b").state(), "on");
}

// Until then another session would free what the collector still uses.
TEST_F(OutOfMemoryTest, ACollectorOfAFailedSessionRestsUntilItIsStopped) {
  Make({&a_, &b_});
  a_.HangIn("stop");
  SessionOptions options = For(absl::Milliseconds(1));
  options.on_command = true;
  std::promise<absl::Status> done;
  SessionCallbacks callbacks;
  callbacks.armed = [](const SessionArmed& /*armed*/) { throw std::bad_alloc(); };
  callbacks.done = [&done](SessionResult result) { done.set_value(result.status); };
  manager_->Submit(options, WhenBusy::kWait, absl::InfiniteFuture(), std::move(callbacks));
  EXPECT_EQ(done.get_future().get().code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(a_.AwaitCalls("stop", 1));
  ASSERT_TRUE(b_.AwaitCalls("stop", 1));
  ASSERT_TRUE(AwaitFree("b"));
  EXPECT_EQ(StateOf(Submit(For(absl::Milliseconds(1))).Get(), "a").state(), "wedged");
  EXPECT_EQ(Count(a_, "arm"), 1);
  a_.Release();
  EXPECT_TRUE(AwaitFree("a"));
  EXPECT_EQ(StateOf(Submit(For(absl::Milliseconds(1))).Get(), "a").state(), "on");
}

TEST_F(OutOfMemoryTest, ARequestThatFindsNoMemoryIsAnsweredAndNeverRuns) {
  bool met = true;
  int sessions = 0;
  int refused = 0;
  for (int at = 1; met; ++at) {
    ASSERT_LT(at, 1'000);
    Make({&a_, &b_});  // without a session thread, which a request therefore starts
    std::promise<absl::Status> done;
    SessionCallbacks callbacks;
    callbacks.done = [&done](SessionResult result) {
      result.slot.reset();
      done.set_value(result.status);
    };
    SessionOptions options = For(absl::Milliseconds(1));
    FailAllocations(at, /*failures=*/1, &IsTheTest);
    EXPECT_NO_THROW(manager_->Submit(std::move(options), WhenBusy::kWait, absl::InfiniteFuture(),
                                     std::move(callbacks)));
    met = StopFailing() == 0;
    std::future<absl::Status> answer = done.get_future();
    ASSERT_EQ(answer.wait_for(kTimeout), std::future_status::ready) << at;
    const absl::Status status = answer.get();
    ++(status.ok() ? sessions : refused);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    }
    EXPECT_TRUE(manager_->Shutdown(absl::Minutes(1)));
  }
  EXPECT_GT(refused, 1);
  EXPECT_EQ(Count(a_, "arm"), sessions);
}

TEST_F(OutOfMemoryTest, WithoutAnyMemoryAQueuedRequestIsCancelled) {
  Make({&a_, &b_});
  Pending running = Submit(For(absl::InfiniteDuration(), "running"));
  ASSERT_TRUE(a_.AwaitCalls("start", 1));
  Pending queued = Submit(For(absl::Milliseconds(1)));
  FailAllocations(1, 1'000'000, &IsAnyThread);
  EXPECT_NO_THROW(manager_->Cancel(queued.ticket));
  const bool answered = queued.result.wait_for(kTimeout) == std::future_status::ready;
  StopFailing();
  EXPECT_TRUE(answered);
  EXPECT_EQ(manager_->Stop("running"), "running");
  if (answered) {
    EXPECT_EQ(queued.Get().status.code(), absl::StatusCode::kCancelled);
  }
  (void)running.Get();
}

TEST_F(OutOfMemoryTest, WithoutAnyMemoryAQueuedRequestRunsOutOfTime) {
  Make({&a_, &b_});
  Pending running = Submit(For(absl::InfiniteDuration(), "running"));
  ASSERT_TRUE(a_.AwaitCalls("start", 1));
  Pending late =
      Submit(For(absl::Milliseconds(1)), WhenBusy::kWait, SteadyNow() + absl::Seconds(1));
  FailAllocations(1, 1'000'000, &IsAnyThread);
  const bool answered = late.result.wait_for(kTimeout) == std::future_status::ready;
  StopFailing();
  EXPECT_TRUE(answered);
  EXPECT_EQ(manager_->Stop("running"), "running");
  if (answered) {
    EXPECT_EQ(late.Get().status.code(), absl::StatusCode::kDeadlineExceeded);
  }
  (void)running.Get();
}

// A worker that ends while memory is short answers all that wait.
TEST_F(OutOfMemoryTest, WithoutAnyMemoryAWorkerEnds) {
  Make({&a_, &b_});
  a_.HangIn("stop");
  Pending running = Submit(For(absl::InfiniteDuration(), "running"));
  ASSERT_TRUE(a_.AwaitCalls("start", 1));
  Pending queued = Submit(For(absl::Milliseconds(1)));
  FailAllocations(1, 1'000'000, &IsAnyThread);
  // Asks for the end; what hangs may be over.
  EXPECT_NO_THROW((void)manager_->Shutdown(absl::ZeroDuration()));
  FailAllocations(1, 1'000'000);
  a_.Release();
  EXPECT_EQ(queued.Get().status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(manager_->Shutdown(absl::Seconds(60)));
  StopFailing();
  (void)running.Get();
}

}  // namespace
}  // namespace jobscope
