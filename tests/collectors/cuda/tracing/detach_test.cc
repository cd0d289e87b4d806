// SPDX-License-Identifier: Apache-2.0
//
// Tests which parts of CUPTI stay in the process after a capture: all of it, unless finalizing was
// requested.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/tracing/buffer_pool.h"
#include "collectors/cuda/tracing/finalize_policy.h"
#include "collectors/cuda/tracing/left_kinds.h"
#include "tests/again_if_busy.h"
#include "tests/collectors/cuda/collector_fixture.h"

namespace jobscope {
namespace {

using cuda::Activity;
using cuda::FakeGpu;
using cuda::FinalizeChoice;
using cuda::RealtimeNs;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kWaitForDevice = "cudaDeviceSynchronize_v3020";
constexpr const char* kWaitForContext = "cuCtxSynchronize";

// A thread of the application that does something again and again.
class ApplicationThread {
 public:
  explicit ApplicationThread(std::function<void()> work = &WaitForDevice)
      : thread_([this, work = std::move(work)] {
          while (!ended_) {
            work();
            std::this_thread::yield();
          }
        }) {}
  ~ApplicationThread() {
    ended_ = true;
    thread_.join();
  }

  // As the runtime does it: a call of the driver within it.
  static void WaitForDevice() {
    (void)gpu().ApiSite(2, 0, kWaitForDevice);
    (void)gpu().ApiSite(1, 0, kWaitForContext);
    (void)gpu().ApiSite(1, 1, kWaitForContext);
    (void)gpu().ApiSite(2, 1, kWaitForDevice);
  }
  static void WaitForContext() {
    (void)gpu().ApiSite(1, 0, kWaitForContext);
    (void)gpu().ApiSite(1, 1, kWaitForContext);
  }

 private:
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

class CudaDetachTest : public CudaCollectorTest {
 protected:
  void SetUp() override {
    CudaCollectorTest::SetUp();
    options_.finalize = FinalizeChoice::kByVersion;
    options_.limits.detach_wait = absl::Seconds(10);
    options_.limits.detach = absl::Seconds(20);
  }
  void ArmOnceTheCallIsBack() {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    absl::Status armed;
    while (!(armed = session().Arm()).ok() && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    ASSERT_TRUE(armed.ok()) << armed;
  }
  void Capture(bool graphs = false) {
    driver_.reset();
    const uint64_t finalized_before = gpu().Calls("cuptiFinalize");
    Begin();
    Activity kernel = FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000);
    if (graphs) {
      kernel.graph = 3;
      kernel.graph_node = 7;
    }
    gpu().Emit(kernel);
    Finish();
    session().ExpectIdentity();
    EXPECT_EQ(session().Named(kAddName).size(), 1u);
    EXPECT_EQ(gpu().IsSubscribed(), 0);
    const bool finalized = gpu().Calls("cuptiFinalize") > finalized_before;
    const bool stays = !finalized && cuda::LeftKinds::NeverDisable(gpu().version(), 10);
    EXPECT_EQ(gpu().IsEnabled(10), stays ? 1 : 0);
  }
};

// Every version on which something changes, with and without graphs.
TEST_F(CudaDetachTest, CuptiIsTakenOutWhereThatVersionIsSafe) {
  const struct {
    uint32_t version;
    bool without_graphs, with_graphs;
  } kCases[] = {{13, false, false},   {18, false, false},   {19, false, false},
                {20, true, false},    {22, true, false},    {23, true, false},
                {24, true, false},    {28, true, false},    {130000, false, false},
                {130001, true, true}, {130300, true, true}, {140000, false, false}};
  for (const auto& c : kCases) {
    for (const bool graphs : {false, true}) {
      SCOPED_TRACE(std::to_string(c.version) + (graphs ? " with graphs" : ""));
      driver_.reset();
      collector_.reset();
      LeaveGpu();
      options_.cupti_library = UseVersion(c.version);
      const ApplicationThread application;
      Capture(graphs);
      const bool expected = graphs ? c.with_graphs : c.without_graphs;
      EXPECT_EQ(gpu().Calls("cuptiFinalize"), expected ? 1u : 0u);
      const auto stays = Contains(HasSubstr("cuptiFinalize is not called"));
      if (expected) {
        EXPECT_THAT(session().report().warnings, Not(stays));
      } else {
        EXPECT_THAT(session().report().warnings, stays);
      }
      // A CUPTI that is gone traces nothing.
      const bool traces =
          !expected && cuda::LeftKinds::NeverDisable(c.version, cuda::kKindConcurrentKernel);
      const auto goes_on = Contains(HasSubstr("goes on tracing kernels")).Times(traces ? 1 : 0);
      EXPECT_THAT(session().report().warnings, goes_on);
    }
  }
}

// CUPTI fails, and detaches itself, while it is being unsubscribed: no kernels stay traced, and the
// next capture sets its limits again.
TEST_F(CudaDetachTest, ACuptiThatFailsAtTheVeryEndTracesNoKernels) {
  options_.cupti_library = UseVersion(27);
  options_.finalize = FinalizeChoice::kNever;
  Begin();
  gpu().Emit(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000));
  gpu().Hang("cuptiUnsubscribe");
  std::thread cupti([] {
    EXPECT_EQ(gpu().AwaitHang(), 1);
    gpu().ReportState(1, 9, "the GPU is gone");
    gpu().Release();
  });
  Finish();
  cupti.join();
  EXPECT_FALSE(cuda::LeftKinds::Get().kernels_stay());
  EXPECT_THAT(session().report().warnings, Not(Contains(HasSubstr("goes on tracing kernels"))));
  gpu().Reset(27);  // what was finalized has forgotten its attributes
  driver_.reset();
  Begin();
  EXPECT_EQ(gpu().Attribute(cuda::kDeviceBufferPoolLimit), 20u);
  Finish();
}

TEST_F(CudaDetachTest, AGraphOfAnEarlierCaptureIsRemembered) {
  options_.cupti_library = UseVersion(22);
  const ApplicationThread application;
  Capture();
  EXPECT_EQ(gpu().Calls("cuptiFinalize"), 1u);
  Capture(/*graphs=*/true);
  Capture();
  EXPECT_EQ(gpu().Calls("cuptiFinalize"), 1u);
}

TEST_F(CudaDetachTest, AGraphThatIsMadeOrLaunchedCountsToo) {
  options_.cupti_library = UseVersion(22);
  const ApplicationThread application;
  Begin();
  gpu().Emit(FakeGpu::Call(cuda::kGraphLaunchCall, FakeGpu::NextCorrelation(), RealtimeNs()));
  Finish();
  EXPECT_EQ(gpu().Calls("cuptiFinalize"), 0u);
}

// Nobody has tried it on a GPU, and what goes wrong in it takes the job down.
TEST_F(CudaDetachTest, NobodyGetsItWhoHasNotAsked) {
  options_.finalize = CudaCollectorOptions().finalize;
  const ApplicationThread application;
  Capture();
  EXPECT_EQ(gpu().Calls("cuptiFinalize"), 0u);
  EXPECT_THAT(session().report().warnings, IsEmpty());
}

TEST_F(CudaDetachTest, AlwaysMeansAlsoWhereTheTableWarns) {
  options_.cupti_library = UseVersion(18);
  options_.finalize = FinalizeChoice::kAlways;
  const ApplicationThread application;
  Capture();
  EXPECT_EQ(gpu().Calls("cuptiFinalize"), 1u);
}

TEST_F(CudaDetachTest, CapturesFollowEachOtherAndEachFindsItsKernels) {
  const ApplicationThread application;
  for (int i = 0; i < 20; ++i) Capture();
  EXPECT_EQ(gpu().Calls("cuptiFinalize"), 20u);
}

// CUPTI may hold buffers when it is finalized, a few each time. Nobody gives them back.
TEST_F(CudaDetachTest, BuffersThatAFinalizedCuptiHeldAreNotLostForEver) {
  const ApplicationThread application;
  const size_t pool = options_.buffer_bytes / cuda::BufferPool::kBufferBytes;
  for (size_t i = 0; i < 6; ++i) {
    driver_.reset();
    Begin();
    for (size_t k = 0; k < pool / 3; ++k) ASSERT_NE(gpu().Take(), nullptr) << i;
    gpu().Emit(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000));
    Finish();
    EXPECT_EQ(session().Named(kAddName).size(), 1u) << i;
  }
}

// It waits for what is in flight, on the application's thread.
TEST_F(CudaDetachTest, WithWorkInFlightItStays) {
  options_.limits.work_in_flight = absl::Milliseconds(1);
  const ApplicationThread application;
  Begin();
  (void)gpu().LaunchPending(kAdd);
  Finish();
  EXPECT_EQ(gpu().Calls("cuptiFinalize"), 0u);
  EXPECT_THAT(session().report().warnings, Contains(HasSubstr("work that is in flight")));
}

TEST_F(CudaDetachTest, ProgramsThatUseTheDriverAloneAreLeftToo) {
  const ApplicationThread application(&ApplicationThread::WaitForContext);
  Capture();
  EXPECT_EQ(gpu().Calls("cuptiFinalize"), 1u);
}

// Places at which something may be in flight, or a thread inside of CUPTI.
TEST_F(CudaDetachTest, WithoutASafePlaceItStaysAndIsSaid) {
  const std::pair<const char*, std::function<void()>> kCases[] = {
      {"no call", [] {}},
      {"a launch", [] { (void)gpu().ApiCall(2); }},
      {"a wait for a stream",
       [] {
         (void)gpu().ApiSite(2, 0, "cudaStreamSynchronize_v3020");
         (void)gpu().ApiSite(2, 1, "cudaStreamSynchronize_v3020");
       }},
      {"the wait within another call, which goes on",
       [] {
         (void)gpu().ApiSite(2, 0, "cudaFree_v3020");
         ApplicationThread::WaitForContext();
         (void)gpu().ApiSite(2, 1, "cudaFree_v3020");
       }},
  };
  options_.limits.detach_wait = absl::Milliseconds(30);
  for (const auto& [name, work] : kCases) {
    SCOPED_TRACE(name);
    gpu().Reset(130001);
    const ApplicationThread application(work);
    Capture();
    EXPECT_EQ(gpu().Calls("cuptiFinalize"), 0u);
    EXPECT_EQ(gpu().Calls("cuptiUnsubscribe"), 1u);
    EXPECT_THAT(session().report().warnings, Contains(HasSubstr("the next capture tries again")));
    // And no call that comes later finds anything to do.
    ApplicationThread::WaitForDevice();
    EXPECT_EQ(gpu().Calls("cuptiFinalize"), 0u);
  }
}

// One thread waits for the context, while another one is inside of CUDA.
TEST_F(CudaDetachTest, WhileAnotherThreadIsInsideOfCudaItStays) {
  options_.limits.detach_wait = absl::Milliseconds(30);
  std::atomic<bool> inside{false};
  std::atomic<bool> leave{false};
  std::thread other([&] {
    while (gpu().ApiSite(2, 0, "cudaMalloc_v3020") == 0 && !leave) std::this_thread::yield();
    // Until it is reported: it is inside from its first callback.
    inside = true;
    while (!leave) std::this_thread::yield();
  });
  const ApplicationThread application([&] {
    if (inside) ApplicationThread::WaitForDevice();
  });
  Capture();
  leave = true;
  other.join();
  EXPECT_EQ(gpu().Calls("cuptiFinalize"), 0u);
}

// It was in the runtime before the callbacks came: the driver's wait is not its outermost call.
TEST_F(CudaDetachTest, ACallThatWasEnteredUnseenIsNotMistaken) {
  options_.limits.detach_wait = absl::Milliseconds(30);
  std::atomic<int> waits{0};
  const ApplicationThread application([&] {
    if (waits > 0) return;
    waits += gpu().ApiSite(1, 0, kWaitForContext);
    (void)gpu().ApiSite(1, 1, kWaitForContext);
  });
  // Until the callbacks were on for long enough that the thread ran.
  while (waits == 0) Capture();
  EXPECT_EQ(gpu().Calls("cuptiFinalize"), 0u);
}

// In the same call of the runtime one of the driver ends, which was entered before the callbacks
// came, too.
TEST_F(CudaDetachTest, ACallOfTheDriverThatEndsDoesNotEndTheRuntimesAroundIt) {
  options_.limits.detach_wait = absl::Milliseconds(30);
  std::atomic<int> waits{0};
  const ApplicationThread application([&] {
    if (waits > 0 || gpu().ApiSite(1, 1, "cuMemFree_v2") == 0) return;
    waits += gpu().ApiSite(1, 0, kWaitForContext);
    (void)gpu().ApiSite(1, 1, kWaitForContext);
  });
  while (waits == 0) Capture();
  EXPECT_EQ(gpu().Calls("cuptiFinalize"), 0u);
}

// CUPTI has reported one of the two calls already, the other one not yet.
TEST_F(CudaDetachTest, ACallBetweenTheTwoKindsOfCallbacksIsNotMistaken) {
  options_.limits.detach_wait = absl::Milliseconds(30);
  for (const char* second : {"cuptiEnableDomain:1", "cuptiEnableDomain:2"}) {
    SCOPED_TRACE(second);
    gpu().Hang(second);
    std::thread capture([this] { Capture(); });
    EXPECT_EQ(gpu().AwaitHang(), 1);
    (void)gpu().ApiSite(2, 0, kWaitForDevice);
    (void)gpu().ApiSite(1, 0, kWaitForContext);
    gpu().Release();
    while (gpu().ApiSite(1, 1, kWaitForContext) == 0 && gpu().IsSubscribed() != 0) {
      std::this_thread::yield();
    }
    EXPECT_EQ(gpu().Calls("cuptiFinalize"), 0u);
    (void)gpu().ApiSite(2, 1, kWaitForDevice);
    capture.join();
  }
}

// The first wait was within a call of the runtime that has no callback, the second is within
// another one.
TEST_F(CudaDetachTest, WaitsFromBeforeTheRuntimesCallbacksDoNotCount) {
  options_.limits.detach_wait = absl::Milliseconds(300);
  gpu().Hang("cuptiEnableDomain:2");
  std::thread capture([this] { Capture(); });
  EXPECT_EQ(gpu().AwaitHang(), 1);
  ApplicationThread::WaitForContext();
  gpu().Release();
  std::thread([] {
    while (gpu().ApiCall(2) == 0 && gpu().IsSubscribed() != 0) std::this_thread::yield();
  }).join();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for the request behind them
  ApplicationThread::WaitForContext();
  EXPECT_EQ(gpu().Calls("cuptiFinalize"), 0u);
  capture.join();
}

// Without the runtime's callbacks the driver's wait within its call looks like the outermost.
TEST_F(CudaDetachTest, ACuptiThatTellsOfTheDriversCallsOnlyStays) {
  gpu().Fail("cuptiEnableDomain:2", 7, 0);
  const ApplicationThread application;
  Capture();
  EXPECT_EQ(gpu().Calls("cuptiFinalize"), 0u);
  EXPECT_THAT(session().report().warnings, Contains(HasSubstr("INVALID_OPERATION")));
}

// More threads than are counted: one of the others is inside of CUDA.
TEST_F(CudaDetachTest, BesideAThreadThatIsNotCountedItStays) {
  constexpr int kCounted = 256;
  options_.limits.detach_wait = absl::Milliseconds(300);
  std::atomic<int> counted{0};
  std::atomic<int> inside{0};
  std::atomic<bool> leave{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < kCounted; ++i) {
    threads.emplace_back([&, i] {
      bool reported = false;
      while (!leave) {
        if (!reported && gpu().ApiCall(2) != 0) {
          reported = true;
          ++counted;
        }
        if (i == 0 && inside != 0) ApplicationThread::WaitForDevice();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  // Enters when the others are counted, and stays.
  threads.emplace_back([&] {
    while (!leave) {
      if (counted == kCounted && inside == 0) inside += gpu().ApiSite(2, 0, "cudaMalloc_v3020");
      std::this_thread::yield();
    }
  });
  Capture();
  leave = true;
  for (std::thread& thread : threads) thread.join();
  if (inside == 0) GTEST_SKIP() << "the machine was too slow for that many threads";
  EXPECT_EQ(gpu().Calls("cuptiFinalize"), 0u);
}

// A kernel of one GPU may wait for one of another that is launched only after the finalizing.
TEST_F(CudaDetachTest, WithTwoGpusItStays) {
  const ApplicationThread application;
  Begin();
  for (const uint32_t device : {0, 1}) {
    Activity kernel = FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000);
    kernel.device = device;
    gpu().Emit(kernel);
  }
  Finish();
  EXPECT_EQ(gpu().Calls("cuptiFinalize"), 0u);
  EXPECT_THAT(session().report().warnings, Contains(HasSubstr("several GPUs")));
}

// Such a capture has looked at nothing that was recorded: one that is cancelled while it is armed.
TEST_F(CudaDetachTest, AfterACaptureThatNeverStartedItStays) {
  const ApplicationThread application;
  ASSERT_TRUE(session().Arm().ok());
  for (const uint32_t device : {0, 1}) {
    Activity kernel = FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000);
    kernel.device = device;
    gpu().Emit(kernel);
  }
  session().Stop();
  EXPECT_EQ(gpu().Calls("cuptiFinalize"), 0u);
  EXPECT_EQ(gpu().IsSubscribed(), 0);
  EXPECT_THAT(session().report().warnings, Contains(HasSubstr("ended before its start")));
}

TEST_F(CudaDetachTest, ACuptiThatDoesNotTellOfCallsStays) {
  gpu().Fail("cuptiEnableDomain", 7, 1);  // after that of its own reports
  const ApplicationThread application;
  Capture();
  EXPECT_EQ(gpu().Calls("cuptiFinalize"), 0u);
  EXPECT_THAT(session().report().warnings, Contains(HasSubstr("INVALID_OPERATION")));
}

TEST_F(CudaDetachTest, AFinalizeThatFailsIsSaid) {
  gpu().Fail("cuptiFinalize", 999, 0);
  const ApplicationThread application;
  Capture();
  EXPECT_THAT(session().report().warnings, Contains(HasSubstr("cuptiFinalize: 999")));
}

// What was finalized is gone, whatever came before: nothing of it stays, and nothing says so.
TEST_F(CudaDetachTest, AnUnsubscribeThatFailsDoesNotHideTheFinalizing) {
  options_.cupti_library = UseVersion(27);
  {
    const ApplicationThread application;
    Begin();
    gpu().Emit(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000));
    gpu().Fail("cuptiUnsubscribe", 1, 0);
    Finish();
  }
  EXPECT_EQ(gpu().Calls("cuptiFinalize"), 1u);
  EXPECT_FALSE(cuda::LeftKinds::Get().kernels_stay());
  EXPECT_THAT(session().report().warnings, IsEmpty());
  gpu().Reset(27);  // the fake's subscription ends with the call that failed here
}

TEST_F(CudaDetachTest, AFinalizeThatHangsCostsTheGpuPartAndNotTheAnswer) {
  ExpectHangAtEnd();
  const ApplicationThread application;
  ExpectWithin(absl::Seconds(5), [this] {
    ArmOnceTheCallIsBack();
    EXPECT_TRUE(session().Start().ok());
    gpu().Hang("cuptiFinalize");
    EXPECT_TRUE(gpu().Deliver(Encode(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000), 130001)));
    const absl::Duration took = FinishInAHang("cuptiFinalize has not returned");
    // The next capture reports it, until the call is back.
    EXPECT_THAT(std::string(collector().Arm(session().request()).message()),
                HasSubstr("still hangs"));
    gpu().Release();
    driver_.reset();
    return took;
  });
  ArmOnceTheCallIsBack();
  Finish();
}

TEST_F(CudaDetachTest, BuffersThatCuptiHeldAreNotLostForEverIfFinalizingTookTooLong) {
  options_.limits.detach = absl::Milliseconds(300);
  const ApplicationThread application;
  const size_t pool = options_.buffer_bytes / cuda::BufferPool::kBufferBytes;
  for (size_t i = 0; i < 6; ++i) {
    driver_.reset();
    ArmOnceTheCallIsBack();
    ASSERT_TRUE(session().Start().ok());
    for (size_t k = 0; k < pool / 3; ++k) ASSERT_NE(gpu().Take(), nullptr) << i;
    gpu().Hang("cuptiFinalize");
    Finish();
    EXPECT_THAT(session().report().reason, HasSubstr("cuptiFinalize has not returned"));
    gpu().Release();
  }
}

}  // namespace
}  // namespace jobscope
