// SPDX-License-Identifier: Apache-2.0
//
// Deadlines of verbs, on a machine that has no processor for the collector's thread; the limits on
// memory that are read before drains.
#include "server/session/collector_task.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "common/process/headroom.h"
#include "tests/common/threads/starved.h"
#include "tests/common/threads/starved_start.h"
#include "tests/server/session/fake_collector.h"

namespace {

thread_local int limits_read = 0;
// A limit that bounds nothing, of which processes nevertheless must take care.
std::atomic<bool> limited{false};

}  // namespace

extern "C" int __real_getrlimit(__rlimit_resource_t resource, rlimit* limit);

// The linker's --wrap sends each call of getrlimit here.
extern "C" int __wrap_getrlimit(__rlimit_resource_t resource, rlimit* limit) {
  ++limits_read;
  const int result = __real_getrlimit(resource, limit);
  if (result == 0 && (resource == RLIMIT_AS || resource == RLIMIT_DATA)) {
    limit->rlim_cur = limited ? RLIM_INFINITY - 1 : RLIM_INFINITY;
  }
  return result;
}

namespace jobscope {
namespace {

using Clock = CollectorTask::Clock;
using std::chrono::milliseconds;

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
                                   std::make_shared<SessionContext>(), &task)
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
  ASSERT_TRUE(CollectorTask::Start(slot, std::make_shared<SessionContext>(), &task).ok());
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
  ASSERT_TRUE(CollectorTask::Start(slot, std::make_shared<SessionContext>(), &task).ok());
  task->PostArm({});
  ASSERT_TRUE(collector.AwaitCalls("arm", 1));
  task->AwaitWithoutAbandoning(Clock::now() + milliseconds(10));
  EXPECT_FALSE(task->Await(Clock::now() + milliseconds(10)));
  EXPECT_TRUE(task->abandoned());
  EXPECT_EQ(task->abandoned_in(), Verb::kArm);
  collector.Release();
  while (slot->wedged_in() != Verb::kNone) std::this_thread::yield();
}

// Its Drain counts the limits that were read before it.
class CountingCollector : public FakeCollector {
 public:
  CountingCollector() : FakeCollector("counting") {}
  absl::Duration Drain() override {
    limits_read_ = limits_read;
    return FakeCollector::Drain();
  }
  int limits_read_so_far() const { return limits_read_; }

 private:
  std::atomic<int> limits_read_{0};
};

constexpr int kDrains = 100;

// Returns how many limits were read before that many drains, and sets the time that they took.
int LimitsReadBeforeDrains(Clock::duration* took) {
  CountingCollector collector;
  std::shared_ptr<CollectorTask> task;
  EXPECT_TRUE(CollectorTask::Start(std::make_shared<CollectorSlot>(&collector),
                                   std::make_shared<SessionContext>(), &task)
                  .ok());
  const auto begun = Clock::now();
  collector.FailIn("stop", absl::UnavailableError("it has nothing to write to"));
  task->PostArm({});
  EXPECT_TRUE(task->Await(Clock::time_point::max()));
  task->PostStart({});
  EXPECT_TRUE(task->Await(Clock::time_point::max()));
  EXPECT_TRUE(collector.AwaitCalls("drain", kDrains));
  const int read = collector.limits_read_so_far();
  *took = Clock::now() - begun;
  task->PostStop(1);
  EXPECT_TRUE(task->Await(Clock::time_point::max()));
  task->Finish();
  return read;
}

// On a quiet worker, most wake-ups find nothing: what they cost is what the job pays for a capture.
TEST(CollectorTaskTest, DrainsOfAProcessWithoutLimitsDoNotReadThemEachTime) {
  if (MappingIsLimited()) GTEST_SKIP() << "the machine commits only the memory that it has";
  Clock::duration took{};
  const int read = LimitsReadBeforeDrains(&took);
  EXPECT_GE(read, 1);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(took).count();
  EXPECT_LE(read, 2 * (1 + seconds)) << "two limits, each second";
}

// Whether memory is left changes with each allocation of the job.
TEST(CollectorTaskTest, EachDrainOfAProcessWithALimitAsksForMemory) {
  if (MappingIsLimited()) GTEST_SKIP() << "the machine commits only the memory that it has";
  limited = true;
  Clock::duration took{};
  EXPECT_GE(LimitsReadBeforeDrains(&took), kDrains);
  limited = false;
}

}  // namespace
}  // namespace jobscope
