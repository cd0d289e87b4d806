// SPDX-License-Identifier: Apache-2.0
//
// Launches while a program records a CUDA graph from a stream: they run nothing, and are no losses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <utility>

#include "tests/collectors/cuda/collector_fixture.h"

namespace jobscope {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using cuda::FakeGpu;
using cuda::RealtimeNs;

class CudaStreamCaptureTest : public CudaCollectorTest {
 protected:
  // Returns the correlation id of a call of this thread that runs nothing.
  static uint32_t Call(uint32_t which, uint32_t result = 0) {
    const uint32_t correlation = FakeGpu::NextCorrelation();
    cuda::Activity api = FakeGpu::Call(which, correlation, RealtimeNs());
    api.result = result;
    gpu().Emit(api);
    return correlation;
  }
};

TEST_F(CudaStreamCaptureTest, LaunchesThatRunNothingAreNoLosses) {
  Begin();
  gpu().Launch(kAdd);
  // A graph is recorded: by this thread, while another one launches into it.
  Call(cuda::kStreamBeginCaptureCall);
  Call(cuda::kLaunchKernelCall);
  std::thread([] { Call(cuda::kLaunchKernelCall); }).join();
  Call(cuda::kStreamEndCaptureCall);
  // It failed.
  Call(cuda::kLaunchKernelCall, 98);
  // After the end of the recording a launch is one.
  Call(cuda::kLaunchKernelCall);
  Finish();
  session().ExpectIdentity();
  EXPECT_THAT(session().report().lost_by_cause, ElementsAre(Pair(LossCause::kGpuUnfinished, 1)));
}

// In CUDA's relaxed mode.
TEST_F(CudaStreamCaptureTest, ARecordingThatAnotherThreadEndsHidesNoLaterLoss) {
  Begin();
  Call(cuda::kLaunchKernelCall);
  Call(cuda::kStreamBeginCaptureCall);
  Call(cuda::kLaunchKernelCall);
  std::thread([] { Call(cuda::kStreamEndCaptureCall); }).join();
  Call(cuda::kLaunchKernelCall);
  Finish();
  session().ExpectIdentity();
  EXPECT_THAT(session().report().lost_by_cause, ElementsAre(Pair(LossCause::kGpuUnfinished, 2)));
}

// cudaErrorStreamCaptureInvalidated and ...Unjoined end a recording; ...WrongThread does not.
TEST_F(CudaStreamCaptureTest, AGraphRecordingThatFailsHidesNoLaterLoss) {
  for (const auto& [result, lost] : {std::pair{901u, 1u}, {904u, 1u}, {908u, 0u}}) {
    SCOPED_TRACE(result);
    driver_.reset();
    Begin();
    Call(cuda::kStreamBeginCaptureCall);
    Call(cuda::kStreamEndCaptureCall, result);
    Call(cuda::kLaunchKernelCall);
    Finish();
    session().ExpectIdentity();
    const auto& losses = session().report().lost_by_cause;
    EXPECT_EQ(
        losses.count(LossCause::kGpuUnfinished) == 0 ? 0 : losses.at(LossCause::kGpuUnfinished),
        lost);
  }
}

// The record of the end was in a buffer that was discarded.
TEST_F(CudaStreamCaptureTest, ALostEndHidesNoLossAfterTheThreadsNextKernel) {
  Begin();
  Call(cuda::kStreamBeginCaptureCall);
  Call(cuda::kLaunchKernelCall);  // into the graph
  gpu().Launch(kAdd);
  Call(cuda::kLaunchKernelCall);
  std::thread([] { Call(cuda::kLaunchKernelCall); }).join();
  Finish();
  session().ExpectIdentity();
  EXPECT_THAT(session().report().lost_by_cause, ElementsAre(Pair(LossCause::kGpuUnfinished, 2)));
}

TEST_F(CudaStreamCaptureTest, ARecordingThatOutlastsTheCaptureHidesItsLaunches) {
  Begin();
  gpu().Launch(kAdd);
  Call(cuda::kStreamBeginCaptureCall);
  Call(cuda::kLaunchKernelCall);
  std::thread([] { gpu().Launch(kAdd); }).join();  // does not record
  Call(cuda::kLaunchKernelCall);
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named(kAddName).size(), 2u);
  EXPECT_THAT(session().report().lost_by_cause, IsEmpty());
}

// As CUPTI before 13.1 update 1 may do.
TEST_F(CudaStreamCaptureTest, AGraphsNodeWithTheIdOfARecordedLaunchEndsNoRecording) {
  Begin();
  Call(cuda::kStreamBeginCaptureCall);
  cuda::Activity node =
      FakeGpu::Kernel(kAdd, Call(cuda::kLaunchKernelCall), RealtimeNs(), /*length_ns=*/1'000);
  node.graph = 5;
  gpu().Emit(node);
  Call(cuda::kLaunchKernelCall);
  Finish();
  session().ExpectIdentity();
  EXPECT_THAT(session().report().lost_by_cause, IsEmpty());
}

}  // namespace
}  // namespace jobscope
