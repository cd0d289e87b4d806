// SPDX-License-Identifier: Apache-2.0
//
// Sessions whose collectors are off, fail, hang, or have too much to say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/session/session_manager.h"
#include "tests/again_if_busy.h"
#include "tests/server/session/fake_collector.h"
#include "tests/server/session/session_fixture.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

// A collector sizes its own memory by the store that the session has, not by the one requested.
TEST_F(SessionTest, CollectorsSeeTheStoreThatTheProcessHasRoomFor) {
  Make({&a_});
  SessionOptions options = For(absl::Milliseconds(1));
  options.store_bytes = uint64_t{1} << 50;  // more than any process can map
  const SessionResult result = Submit(std::move(options)).Get();
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.summary.warnings(), Contains(HasSubstr("the capture's store had")));
  EXPECT_LT(a_.store_bytes(), uint64_t{1} << 50);
  EXPECT_EQ(a_.store_bytes(), result.summary.options().store_bytes());
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

// Whichever verb the session waits for when the process begins to exit, also after the planned end.
class ExitTest : public SessionTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(ExitTest, ShortensAWaitInProgress) {
  const std::string verb = GetParam();
  ExpectWithin(absl::Milliseconds(700), [&] {
    FakeCollector hung("hung");
    Make({&hung, &b_});
    hung.HangIn(verb);
    Pending session = Submit(For(absl::Milliseconds(10), "ending"));
    EXPECT_TRUE(hung.AwaitCalls(verb, 1));
    const absl::Time before = absl::Now();
    EXPECT_TRUE(manager_->Stop("ending", EndedBy::kShutdown).has_value());
    const SessionResult result = session.Get();
    const absl::Duration took = absl::Now() - before;
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.summary.collectors(0).state(), "wedged");
    EXPECT_EQ(result.summary.events(), 1u);
    return took;
  });
}
INSTANTIATE_TEST_SUITE_P(Verbs, ExitTest, ::testing::Values("start", "stop", "report"),
                         [](const auto& info) { return std::string(info.param); });

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

}  // namespace
}  // namespace jobscope
