// SPDX-License-Identifier: Apache-2.0
//
// Deadlines of verbs, on a machine that has no processor for the collector's thread.
#include "server/tasks/collector_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/common/threads/starved.h"
#include "tests/common/threads/starved_start.h"
#include "tests/server/session/fake_collector.h"

namespace jobscope {
namespace {

using Clock = CollectorTask::Clock;
using std::chrono::milliseconds;
using ::testing::ElementsAre;

// Its Stop computes, on a thread that runs where nobody else wants to.
class StarvedCollector : public FakeCollector {
 public:
  explicit StarvedCollector(const cpu_set_t& processor)
      : FakeCollector("starved"), processor_(processor) {}
  absl::Status Stop(uint64_t) override {
    ComputeStarved(processor_);
    return absl::OkStatus();
  }

 private:
  const cpu_set_t processor_;
};

// Its posted verb is awaited although its time limit passes long before `busy` frees the processor.
void ExpectPatience(CollectorTask* task, BusyProcessor* busy) {
  task->AwaitWithoutAbandoning(Clock::now() + milliseconds(50));
  const auto deadline = Clock::now() + milliseconds(50);
  std::thread later([&] {
    std::this_thread::sleep_until(deadline + milliseconds(300));
    busy->Free();
  });
  EXPECT_TRUE(task->Await(deadline));
  EXPECT_FALSE(task->abandoned());
  later.join();
}

TEST(CollectorTaskTest, AThreadThatIsNotRunHasNotHung) {
  const cpu_set_t processor = OneProcessor();
  StarvedCollector collector(processor);
  std::shared_ptr<CollectorTask> task;
  ASSERT_TRUE(CollectorTask::Start(std::make_shared<CollectorSlot>(&collector),
                                   /*context=*/nullptr, &task)
                  .ok());
  task->PostArm({});
  ASSERT_TRUE(task->Await(Clock::time_point::max()));

  BusyProcessor busy(processor);
  task->PostStop(1);
  ExpectPatience(task.get(), &busy);
  task->Finish();
}

// Nor has one that has not run a single instruction of ours.
TEST(CollectorTaskTest, AThreadThatHasNeverRunHasNotHung) {
  const cpu_set_t processor = OneProcessor();
  FakeCollector collector("starved");
  collector.FailIn("arm", absl::UnavailableError("it never was"));  // so nothing is to be stopped
  const auto slot = std::make_shared<CollectorSlot>(&collector);
  std::shared_ptr<CollectorTask> task;
  BusyProcessor busy(processor);
  starved_start = processor;
  ASSERT_TRUE(CollectorTask::Start(slot, /*context=*/nullptr, &task).ok());
  starved_start.reset();
  task->PostArm({});
  ExpectPatience(task.get(), &busy);
  task->Finish();
  while (slot->wedged_in() != Verb::kNone) std::this_thread::yield();
}

// What blocks does not wait for a processor.
TEST(CollectorTaskTest, AThreadThatBlocksIsGivenUp) {
  FakeCollector collector("blocked");
  collector.HangIn("arm");
  collector.FailIn("arm", absl::UnavailableError("it never was"));  // so nothing is to be stopped
  const auto slot = std::make_shared<CollectorSlot>(&collector);
  std::shared_ptr<CollectorTask> task;
  ASSERT_TRUE(CollectorTask::Start(slot, /*context=*/nullptr, &task).ok());
  task->PostArm({});
  ASSERT_TRUE(collector.AwaitCalls("arm", 1));
  task->AwaitWithoutAbandoning(Clock::now() + milliseconds(10));
  EXPECT_FALSE(task->Await(Clock::now() + milliseconds(10)));
  EXPECT_TRUE(task->abandoned());
  EXPECT_EQ(task->abandoned_in(), Verb::kArm);
  collector.Release();
  while (slot->wedged_in() != Verb::kNone) std::this_thread::yield();
}

// A collector may hold something for its process until its Report, as CUDA's holds CUPTI.
TEST(CollectorTaskTest, AnAbandonedCollectorReportsOnceItReturns) {
  for (const std::string& verb : std::vector<std::string>{"arm", "stop", "report"}) {
    SCOPED_TRACE(verb);
    FakeCollector collector("blocked");
    collector.HangIn(verb);
    collector.FailIn("stop", absl::UnavailableError("there is no store to write to"));
    const auto slot = std::make_shared<CollectorSlot>(&collector);
    std::shared_ptr<CollectorTask> task;
    ASSERT_TRUE(CollectorTask::Start(slot, /*context=*/nullptr, &task).ok());
    task->PostArm({});
    if (verb != "arm") {
      ASSERT_TRUE(task->Await(Clock::time_point::max()));
      task->PostStop(1);
    }
    if (verb == "report") {
      ASSERT_TRUE(task->Await(Clock::time_point::max()));
      task->PostReport();
    }
    ASSERT_TRUE(collector.AwaitCalls(verb, 1));
    EXPECT_FALSE(task->Await(Clock::now() + milliseconds(10)));
    collector.Release();
    while (slot->wedged_in() != Verb::kNone) std::this_thread::yield();
    EXPECT_THAT(collector.calls(), ElementsAre("arm", "stop", "report"));
  }
}

}  // namespace
}  // namespace jobscope
