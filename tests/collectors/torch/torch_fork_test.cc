// SPDX-License-Identifier: Apache-2.0
//
// Children that a program forks while the collector adds and removes PyTorch's callbacks. PyTorch
// does both with a lock that its operators take: a child that was forked meanwhile would hang.
#include <gtest/gtest.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "collectors/torch/torch_library.h"
#include "server/guard/fork_guard.h"
#include "tests/collectors/torch/fake_torch.h"

namespace jobscope {
namespace {

// A child that hangs is ended by its own alarm.
constexpr unsigned kChildLimitS = 10;
constexpr int kForkers = 3;
constexpr int kChildren = 60;  // of each
constexpr int kChangeUs = 200;

// A fork handler of the program that waits, on the threads that set `t_fork_waits`. Registered
// before the guard's, so that it runs after it: the fork has begun.
thread_local bool t_fork_waits = false;
sem_t fork_begun;
sem_t fork_may_go_on;

void WaitInFork() {
  if (!t_fork_waits) return;
  sem_post(&fork_begun);
  sem_wait(&fork_may_go_on);
}
const int registered = pthread_atfork(&WaitInFork, nullptr, nullptr);

class TorchForkTest : public TorchCollectorTest {
 protected:
  // Its wait status.
  int ForkAndRunOne() const {
    const pid_t child = fork();
    if (child == 0) {
      alarm(kChildLimitS);
      Run(framework::torch::kScopeFunction, "aten::in_child");
      _exit(0);
    }
    int status = -1;
    return waitpid(child, &status, 0) == child ? status : -1;
  }
};

TEST_F(TorchForkTest, AStormOfForksDuringArmAndStopHangsNoChild) {
  InstallForkGuard();
  fake_.set_change_us(kChangeUs);
  std::atomic<int> forking{kForkers};
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kForkers; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kChildren && failed == 0; ++i) {
        if (ForkAndRunOne() != 0) ++failed;
      }
      --forking;
    });
  }
  do {
    Arm();
    EXPECT_TRUE(collector_.Stop(UINT64_MAX).ok());
  } while (forking > 0);
  for (std::thread& thread : threads) thread.join();
  fake_.set_change_us(0);
  EXPECT_EQ(failed, 0);
}

// It is called on a thread that serves all callers.
TEST_F(TorchForkTest, DescribeDoesNotWaitForAForkInProgress) {
  ASSERT_EQ(registered, 0);
  sem_init(&fork_begun, 0, 0);
  sem_init(&fork_may_go_on, 0, 0);
  InstallForkGuard();
  EXPECT_FALSE(collector_.Describe().absent);
  std::thread forking([this] {
    t_fork_waits = true;
    EXPECT_EQ(ForkAndRunOne(), 0);
  });
  sem_wait(&fork_begun);
  // With a wait of 1 s in each it takes 60 s.
  auto described = std::async(std::launch::async, [this] {
    bool absent = false;
    for (int i = 0; i < 60; ++i) absent = absent || collector_.Describe().absent;
    return absent;
  });
  EXPECT_EQ(described.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  sem_post(&fork_may_go_on);
  EXPECT_FALSE(described.get());
  forking.join();
}

}  // namespace
}  // namespace jobscope
