// SPDX-License-Identifier: Apache-2.0
//
// Deadlines of verbs, on a machine that has no processor for the collector's thread.
#include "server/session/collector_task.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "tests/server/session/fake_collector.h"

namespace jobscope {
namespace {

using Clock = CollectorTask::Clock;
using std::chrono::milliseconds;

// A processor that this process may use.
cpu_set_t OneProcessor() {
  cpu_set_t all;
  cpu_set_t one;
  CPU_ZERO(&one);
  EXPECT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &all)) ++cpu;
  CPU_SET(cpu, &one);
  return one;
}

milliseconds OwnCpuTime() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return milliseconds(now.tv_sec * 1000 + now.tv_nsec / 1'000'000);
}

// Its Stop computes, on a thread that runs where nobody else wants to.
class StarvedCollector : public FakeCollector {
 public:
  explicit StarvedCollector(const cpu_set_t& processor)
      : FakeCollector("starved"), processor_(processor) {}
  absl::Status Stop(uint64_t) override {
    const sched_param none{};
    EXPECT_EQ(sched_setaffinity(0, sizeof(processor_), &processor_), 0);
    EXPECT_EQ(sched_setscheduler(0, SCHED_IDLE, &none), 0);
    const milliseconds begun = OwnCpuTime();
    while (OwnCpuTime() < begun + milliseconds(20)) {
    }
    return absl::OkStatus();
  }

 private:
  const cpu_set_t processor_;
};

TEST(CollectorTaskTest, AThreadThatIsNotRunHasNotHung) {
  const cpu_set_t processor = OneProcessor();
  StarvedCollector collector(processor);
  std::shared_ptr<CollectorTask> task;
  ASSERT_TRUE(CollectorTask::Start(std::make_shared<CollectorSlot>(&collector),
                                   std::make_shared<SessionContext>(), &task)
                  .ok());
  task->PostArm({});
  ASSERT_TRUE(task->Await(Clock::time_point::max()));

  std::atomic<bool> taken{false};
  std::atomic<bool> free{false};
  std::thread other([&] {
    EXPECT_EQ(sched_setaffinity(0, sizeof(processor), &processor), 0);
    taken = true;
    while (!free) {
    }
  });
  while (!taken) std::this_thread::yield();
  task->PostStop(1);
  task->AwaitWithoutAbandoning(Clock::now() + milliseconds(50));
  const auto deadline = Clock::now() + milliseconds(50);
  std::thread later([&] {
    std::this_thread::sleep_until(deadline + milliseconds(300));
    free = true;
  });
  EXPECT_TRUE(task->Await(deadline));
  EXPECT_FALSE(task->abandoned());
  later.join();
  other.join();
  task->Finish();
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

}  // namespace
}  // namespace jobscope
