// SPDX-License-Identifier: Apache-2.0
#include "common/sync/mutex.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace jobscope {
namespace {

// TryLock of a mutex that the thread itself holds is undefined: another thread looks.
bool IsHeld(Mutex* mutex) {
  bool held = true;
  std::thread([&] {
    if (mutex->TryLock()) {
      held = false;
      mutex->Unlock();
    }
  }).join();
  return held;
}

TEST(MutexTest, IsHeldForTheBlock) {
  Mutex mutex;
  {
    const MutexLock lock(&mutex);
    EXPECT_TRUE(IsHeld(&mutex));
    {
      const MutexUnlock unlocked(&mutex);
      EXPECT_FALSE(IsHeld(&mutex));
    }
    EXPECT_TRUE(IsHeld(&mutex));
  }
  EXPECT_FALSE(IsHeld(&mutex));
}

TEST(MutexTest, IsHeldAgainWhereAnExceptionLeavesTheUnlockedBlock) {
  Mutex mutex;
  const MutexLock lock(&mutex);
  try {
    const MutexUnlock unlocked(&mutex);
    throw std::runtime_error("of a callback");
  } catch (const std::runtime_error&) {
    EXPECT_TRUE(IsHeld(&mutex));
  }
}

TEST(MutexTest, IsReleasedOnce) {
  Mutex mutex;
  MutexLock lock(&mutex);
  lock.Release();
  EXPECT_FALSE(IsHeld(&mutex));
}

struct Shared {
  Mutex mutex;
  CondVar changed;
  int stage ABSL_GUARDED_BY(mutex) = 0;

  void Advance() {
    const MutexLock lock(&mutex);
    ++stage;
    changed.NotifyAll();
  }
  bool reached(int wanted) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return stage >= wanted; }
};

// Whatever is said of the time, what is waited for comes first here.
TEST(CondVarTest, WaitsForTheConditionWithTheMutexHeld) {
  Shared shared;
  std::thread other([&] {
    const MutexLock lock(&shared.mutex);
    for (const absl::Duration timeout : {absl::InfiniteDuration(), absl::Hours(24 * 365 * 300)}) {
      ++shared.stage;
      shared.changed.NotifyAll();
      const int wanted = shared.stage + 1;
      EXPECT_TRUE(shared.changed.WaitFor(
          &shared.mutex, timeout,
          [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex) { return shared.reached(wanted); }));
      EXPECT_TRUE(IsHeld(&shared.mutex));
    }
  });
  for (const int wanted : {1, 3}) {
    {
      const MutexLock lock(&shared.mutex);
      shared.changed.Wait(&shared.mutex, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex) {
        return shared.reached(wanted);
      });
    }
    shared.Advance();
  }
  other.join();
}

TEST(CondVarTest, ReturnsTheConditionWhenTheTimeIsOver) {
  Shared shared;
  const MutexLock lock(&shared.mutex);
  const auto reached_1 = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex) {
    return shared.reached(1);
  };
  EXPECT_FALSE(shared.changed.WaitFor(&shared.mutex, absl::Milliseconds(1), reached_1));
  EXPECT_FALSE(shared.changed.WaitFor(&shared.mutex, -absl::InfiniteDuration(), reached_1));
  EXPECT_FALSE(shared.changed.WaitUntil(&shared.mutex, CondVar::Clock::now(), reached_1));
  shared.changed.WaitFor(&shared.mutex, absl::Milliseconds(1));
  shared.stage = 1;
  EXPECT_TRUE(shared.changed.WaitFor(&shared.mutex, absl::ZeroDuration(), reached_1));
  EXPECT_TRUE(IsHeld(&shared.mutex));
}

}  // namespace
}  // namespace jobscope
