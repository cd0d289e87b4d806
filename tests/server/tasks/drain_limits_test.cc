// SPDX-License-Identifier: Apache-2.0
//
// The limits on memory that are read before drains.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <memory>

#include "common/process/headroom.h"
#include "server/tasks/collector_task.h"
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
                                   /*context=*/nullptr, &task)
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
TEST(DrainLimitsTest, DrainsOfAProcessWithoutLimitsDoNotReadThemEachTime) {
  if (MappingIsLimited()) GTEST_SKIP() << "the machine commits only the memory that it has";
  Clock::duration took{};
  const int read = LimitsReadBeforeDrains(&took);
  EXPECT_GE(read, 1);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(took).count();
  EXPECT_LE(read, 2 * (1 + seconds)) << "two limits, each second";
}

// Whether memory is left changes with each allocation of the job.
TEST(DrainLimitsTest, EachDrainOfAProcessWithALimitAsksForMemory) {
  if (MappingIsLimited()) GTEST_SKIP() << "the machine commits only the memory that it has";
  limited = true;
  Clock::duration took{};
  EXPECT_GE(LimitsReadBeforeDrains(&took), kDrains);
  limited = false;
}

}  // namespace
}  // namespace jobscope
