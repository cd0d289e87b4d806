// SPDX-License-Identifier: Apache-2.0
//
// Children that a program forks while the collector adds and removes PyTorch's callbacks. PyTorch
// does both with a lock that its operators take: a child that was forked meanwhile would hang.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
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
  int captures = 0;
  while (forking > 0) {
    Arm();
    EXPECT_TRUE(collector_.Stop(UINT64_MAX).ok());
    ++captures;
  }
  for (std::thread& thread : threads) thread.join();
  fake_.set_change_us(0);
  EXPECT_EQ(failed, 0);
  EXPECT_GT(captures, 0);
}

}  // namespace
}  // namespace jobscope
