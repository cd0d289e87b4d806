// SPDX-License-Identifier: Apache-2.0
//
// A process without CUDA: the collector loads nothing, and waits for nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "collectors/cuda/cuda_collector.h"
#include "collectors/cuda/libraries/loader.h"
#include "common/process/fork_pause.h"
#include "tests/again_if_busy.h"

namespace jobscope::cuda {
namespace {

// It is called on a thread that serves all callers.
TEST(WithoutCudaTest, DescribeDoesNotWaitForAForkInProgress) {
  const CudaCollector collector(/*uses_tsc=*/false, {});
  std::promise<void> begun;
  std::promise<void> end;
  std::thread forking([&] {
    EXPECT_TRUE(BeginFork());
    begun.set_value();
    end.get_future().wait();
    EndFork();
  });
  begun.get_future().wait();
  // With a wait of 1 s in each it takes 60 s.
  auto described = std::async(std::launch::async, [&collector] {
    for (int i = 0; i < 60; ++i) EXPECT_TRUE(collector.Describe().absent);
  });
  EXPECT_EQ(described.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  end.set_value();
  described.wait();
  forking.join();
}

TEST(WithoutCudaTest, ACaptureIsNotDelayedAndNothingIsLoaded) {
  CudaCollector collector(/*uses_tsc=*/false, {});
  EXPECT_EQ(collector.Describe().state, CollectorState::kOff);
  constexpr int kCaptures = 20;
  // The budget of one is 20 ms.
  ExpectWithin(kCaptures * absl::Milliseconds(20), [&collector] {
    const absl::Time before = absl::Now();
    for (int i = 0; i < kCaptures; ++i) {
      // Nothing is written, so there is nothing to write to.
      EXPECT_TRUE(collector.Arm(ArmRequest()).ok());
      EXPECT_TRUE(collector.Start(StartRequest()).ok());
      EXPECT_EQ(collector.Drain(), absl::InfiniteDuration());
      EXPECT_TRUE(collector.Stop(0).ok());
      const CollectorReport report = collector.Report();
      EXPECT_EQ(report.state, CollectorState::kOff);
      EXPECT_FALSE(report.reason.empty());
      EXPECT_EQ(report.attempted, 0u);
    }
    return absl::Now() - before;
  });
  EXPECT_THAT(MappedCupti(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace jobscope::cuda
