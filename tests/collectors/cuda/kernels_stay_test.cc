// SPDX-License-Identifier: Apache-2.0
//
// Tests captures with a CUPTI that goes on tracing kernels, and the records that arrive after their
// ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/tracing/buffer_pool.h"
#include "tests/collectors/cuda/collector_fixture.h"

namespace jobscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

using cuda::Bytes;
using cuda::FakeGpu;
using cuda::RealtimeNs;

// From CUPTI 12.5 on, until 13.0 update 1, disabling the kernels' kind can block a process with
// CUDA graphs for ever.
class CudaKernelsStayTest : public CudaCollectorTest {
 protected:
  void Capture() {
    driver_.reset();
    Begin();
    gpu().Launch(kAdd);
    Finish();
    session().ExpectIdentity();
    EXPECT_EQ(session().report().state, CollectorState::kOn) << session().report().reason;
    EXPECT_EQ(session().Named(kAddName).size(), 1u);
    EXPECT_THAT(session().report().lost_by_cause, IsEmpty());
    EXPECT_EQ(gpu().IsEnabled(cuda::kKindRuntime), 0);
  }
};

TEST_F(CudaKernelsStayTest, WhereSwitchingThemOffCanBlockTheJob) {
  for (const uint32_t version : {23, 24, 26, 27, 130000}) {
    SCOPED_TRACE(version);
    RenewCollector(version);
    for (int i = 0; i < 3; ++i) {
      Capture();
      EXPECT_EQ(gpu().IsEnabled(cuda::kKindConcurrentKernel), 1);
      EXPECT_THAT(session().report().warnings,
                  ElementsAre(HasSubstr("goes on tracing kernels after the capture")));
      EXPECT_EQ(session().report().warnings[0].find("recording a CUDA graph") != std::string::npos,
                version == 26 || version == 27);
      // In nobody's capture.
      for (int k = 0; k < 10'000; ++k) gpu().Launch(kAdd);
      // What is lent now the next profiler gets, which may free it. Before 12.9 CUPTI needs one.
      void* const buffer = gpu().Take();
      EXPECT_EQ(buffer == nullptr, version >= cuda::kCupti12_9);
      if (buffer != nullptr) gpu().Return(buffer, nullptr, 0);
    }
    LeaveGpu();
  }
}

// They never ran in the window, and their calls are not recorded any more. With work in flight, a
// second forced flush would bring them.
TEST_F(CudaKernelsStayTest, KernelsLaunchedAfterTheEndAreNotLost) {
  options_.limits.work_in_flight = absl::Milliseconds(50);
  options_.cupti_library = UseVersion(27);
  Begin();
  gpu().Launch(kAdd);
  EXPECT_NE(gpu().LaunchPending(kAdd), 0u);
  gpu().Hang("cuptiActivityDisable");
  std::thread program([] {
    EXPECT_EQ(gpu().AwaitHang(), 1);  // behind the forced flush
    for (int i = 0; i < 10; ++i) {
      EXPECT_NE(gpu().Emit(FakeGpu::Kernel(kAdd, FakeGpu::NextCorrelation(), 0, 0)), 0u);
    }
    gpu().Release();
  });
  session().Stop();
  program.join();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
  EXPECT_THAT(session().report().lost_by_cause, ElementsAre(Pair(LossCause::kGpuUnfinished, 1)));
}

// As CUPTI 12.9 does: the call comes with the last flush, its kernel a little later.
TEST_F(CudaKernelsStayTest, KernelsThatComeAfterTheLastFlushAreAwaited) {
  options_.limits.work_in_flight = absl::Seconds(20);
  options_.cupti_library = UseVersion(27);
  Begin();
  gpu().Launch(kAdd);
  const uint64_t called_ns = RealtimeNs();
  void* const buffer = gpu().Take();  // without a record that could be seen
  gpu().Hang("cuptiActivityGetNumDroppedRecords");
  std::thread program([&] {
    EXPECT_EQ(gpu().AwaitHang(), 1);  // all flushes are done
    const uint32_t correlation = FakeGpu::NextCorrelation();
    const Bytes call = Encode(FakeGpu::Call(cuda::kLaunchKernelCall, correlation, called_ns), 27);
    gpu().Return(buffer, call.data(), call.size());
    gpu().Release();
    absl::SleepFor(absl::Milliseconds(100));  // what would end without this kernel has ended then
    EXPECT_TRUE(
        gpu().Deliver(Encode(FakeGpu::Kernel(kAdd, correlation, called_ns + 1'000, 1'000), 27)));
  });
  session().Stop();
  program.join();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named(kAddName).size(), 2u);
  EXPECT_THAT(session().report().lost_by_cause, IsEmpty());
}

// What CUPTI holds when it hangs goes to nobody else, either: XLA's profiler would free it.
TEST_F(CudaKernelsStayTest, WhatCuptiHoldsInAHangIsTakenBackAfterIt) {
  options_.limits.work_in_flight = absl::ZeroDuration();
  options_.limits.end = absl::Milliseconds(50);
  options_.cupti_library = UseVersion(27);
  Begin();
  EXPECT_NE(gpu().LaunchPending(kAdd), 0u);  // CUPTI withholds its buffer
  gpu().Hang("cuptiActivityFlushAll");
  session().Stop();
  EXPECT_EQ(session().report().state, CollectorState::kDegraded);
  EXPECT_TRUE(cuda::BufferPool::Get().HasLent());
  gpu().Release();
  ExpectUnsubscribed();
  EXPECT_FALSE(cuda::BufferPool::Get().HasLent());
}

// Another profiler has registered its callbacks, and CUPTI returned the buffer to it.
TEST_F(CudaKernelsStayTest, ABufferThatAnotherProfilerGotIsMissedOnce) {
  for (const uint32_t version : {24, 27}) {
    SCOPED_TRACE(version);
    options_.limits.work_in_flight = absl::Milliseconds(50);
    RenewCollector(version);
    Begin();
    auto* const taken = static_cast<uint8_t*>(gpu().Take());
    ASSERT_NE(taken, nullptr);
    taken[0] = cuda::kKindConcurrentKernel;
    Finish();
    EXPECT_EQ(session().report().state, CollectorState::kDegraded);
    EXPECT_THAT(session().report().reason, HasSubstr("1 buffers with records did not come back"));
    // At the end; and as the pool takes back what CUPTI holds, where it can.
    const uint64_t forced = gpu().Calls(kForcedWhileTraced);
    EXPECT_EQ(forced, version == 24 ? 1u : 2u);
    options_.limits.work_in_flight = absl::Seconds(20);  // on a busy machine, too
    RenewCollector();
    for (int i = 0; i < 2; ++i) Capture();
    EXPECT_EQ(gpu().Calls(kForcedWhileTraced), forced);
    gpu().Return(taken, nullptr, 0);
    LeaveGpu();
  }
}

TEST_F(CudaKernelsStayTest, AndNowhereElse) {
  for (const uint32_t version : {18, 22, 130001}) {
    SCOPED_TRACE(version);
    RenewCollector(version);
    Capture();
    EXPECT_EQ(gpu().IsEnabled(cuda::kKindConcurrentKernel), 0);
    EXPECT_THAT(session().report().warnings, IsEmpty());
  }
}

}  // namespace
}  // namespace jobscope
