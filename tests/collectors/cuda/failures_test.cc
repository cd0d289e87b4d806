// SPDX-License-Identifier: Apache-2.0
//
// Tests faults: no CUDA, invalid results, calls that do not return. The job and the host's events
// are not affected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "tests/again_if_busy.h"
#include "tests/collectors/cuda/collector_fixture.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

using cuda::Bytes;
using cuda::FakeGpu;
using cuda::RealtimeNs;

using CudaFailuresTest = CudaCollectorTest;

TEST_F(CudaFailuresTest, WithoutCudaInUseItIsOffAndNothingIsCalled) {
  const struct {
    int result;
    int devices;
    const char* reason;
  } kCases[] = {{3, 1, "has not used CUDA"}, {100, 0, "finds no GPU"}, {0, 0, "finds no GPU"}};
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.reason);
    ExpectWithin(absl::Milliseconds(500), [&] {
      driver_.reset();
      gpu().Reset(130001);
      gpu().SetDriver(c.result, c.devices, 13000);
      const absl::Time before = absl::Now();
      Begin();
      return absl::Now() - before;
    });
    EXPECT_EQ(session().Drain(), absl::InfiniteDuration());
    Finish();
    EXPECT_EQ(session().report().state, CollectorState::kOff);
    EXPECT_THAT(session().report().reason, HasSubstr(c.reason));
    EXPECT_EQ(gpu().Calls("cuptiSubscribe"), 0u);
    EXPECT_EQ(gpu().Inits(), 0);
  }
  driver_.reset();
  gpu().SetDriver(999, 0, 13000);
  const absl::Status status = session().Arm();
  EXPECT_THAT(std::string(status.message()), HasSubstr("GPU may have been lost"));
}

TEST_F(CudaFailuresTest, LevelZeroIsOff) {
  session().request().recording.device_tracer_level = 0;
  Begin();
  Finish();
  EXPECT_EQ(session().report().state, CollectorState::kOff);
  EXPECT_EQ(gpu().Calls("cuptiSubscribe"), 0u);
}

TEST_F(CudaFailuresTest, AnotherProfilerIsNamed) {
  gpu().SetOwner("Nsight Systems");
  const absl::Status status = session().Arm();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("already being profiled by Nsight Systems"), HasSubstr("39")));
  EXPECT_EQ(collector().Describe().state, CollectorState::kFailed);
  EXPECT_THAT(collector().Describe().reason, HasSubstr("Nsight Systems"));
  const CollectorReport report = collector().Report();
  EXPECT_EQ(report.state, CollectorState::kFailed);
  // The next capture tries again.
  driver_.reset();
  gpu().Reset(130001);
  Begin();
  Finish();
  EXPECT_EQ(session().report().state, CollectorState::kOn);
  EXPECT_EQ(collector().Describe().state, CollectorState::kOn);
}

TEST_F(CudaFailuresTest, MissingPrivilegesComeWithTheirRemedy) {
  gpu().Fail("cuptiActivityEnable:10", 35, 0);
  const absl::Status status = session().Arm();
  EXPECT_THAT(std::string(status.message()), HasSubstr("NVreg_RestrictProfilingToAdminUsers=0"));
  EXPECT_EQ(gpu().IsSubscribed(), 0);  // nothing stays behind
}

TEST_F(CudaFailuresTest, WhatCuptiHasToSayOfAResultIsInTheReason) {
  gpu().Fail("cuptiActivityEnable:10", 35, 0);
  EXPECT_THAT(std::string(session().Arm().message()), HasSubstr("CUPTI says: the fake says why)"));
  driver_.reset();
  gpu().Reset(130001);
  gpu().Fail("cuptiActivityEnable:10", 7, 0);  // of which it knows the name only
  EXPECT_THAT(std::string(session().Arm().message()), Not(HasSubstr("CUPTI says")));
}

TEST_F(CudaFailuresTest, EveryResultOfEveryCallLeavesTheJobAlone) {
  for (const char* const function :
       {"cuptiSubscribe", "cuptiActivityRegisterCallbacks", "cuptiActivityEnable",
        "cuptiActivityDisable", "cuptiActivityFlushAll", "cuptiUnsubscribe",
        "cuptiActivityGetNumDroppedRecords", "cuptiEnableDomain", "cuptiSetThreadIdType",
        "cuptiActivityEnableRuntimeApi", "cuptiActivityGetAttribute",
        "cuptiActivitySetAttribute"}) {
    for (const int result : {1, 2, 8, 15, 27, 35, 39, 43, 999}) {
      SCOPED_TRACE(std::string(function) + " " + std::to_string(result));
      driver_.reset();
      gpu().Reset(130001);
      gpu().Fail(function, result, 0);
      const absl::Status armed = session().Arm();
      if (armed.ok()) {
        EXPECT_TRUE(session().Start().ok());
        gpu().Launch(kAdd);
        (void)session().Drain();
        Finish();
        session().ExpectIdentity();
      } else {
        EXPECT_THAT(std::string(armed.message()), HasSubstr(std::to_string(result)));
        EXPECT_EQ(collector().Report().state, CollectorState::kFailed);
      }
    }
  }
}

TEST_F(CudaFailuresTest, AKindThatThisCuptiRefusesIsLeftOutAndSaid) {
  gpu().Fail("cuptiActivityEnable:49", 27, 0);
  Begin();
  gpu().Launch(kAdd);
  Finish();
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
  EXPECT_THAT(session().report().warnings,
              Contains(HasSubstr("memory allocations are not traced")));
}

TEST_F(CudaFailuresTest, WhatCuptiReportsByItselfIsInTheReport) {
  Begin();
  gpu().ReportState(3, 8, "client gave no buffer");
  gpu().Launch(kAdd);
  Finish();
  EXPECT_THAT(session().report().warnings,
              Contains(AllOf(HasSubstr("client gave no buffer"), HasSubstr("OUT_OF_MEMORY"))));
}

// It does so for each record that is lost.
TEST_F(CudaFailuresTest, WhatCuptiReportsManyTimesIsOneWarning) {
  Begin();
  for (int i = 0; i < 1000; ++i) gpu().ReportState(3, 8, "client gave no buffer");
  gpu().Launch(kAdd);
  Finish();
  EXPECT_THAT(session().report().warnings,
              ElementsAre(AllOf(HasSubstr("client gave no buffer"), HasSubstr(", 1000 times"))));
}

// CUPTI then takes itself out of the process: it is not to be touched any more, not even to leave,
// and names in records that were not read until then are no longer there.
TEST_F(CudaFailuresTest, AFatalErrorOfCuptiEndsTheGpuPartAndIsTheReason) {
  options_.limits.flush_every = absl::Seconds(100);
  Begin();
  EXPECT_TRUE(gpu().Deliver(Encode(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000), 130001)));
  (void)session().Drain();
  void* const page =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* const name = static_cast<char*>(page);
  std::strcpy(name, "lost");
  const Bytes lost = Encode(FakeGpu::Kernel(name, 0, RealtimeNs(), 1'000), 130001);
  EXPECT_TRUE(gpu().Deliver(cuda::Join({lost, lost})));
  gpu().ReportState(1, 9, "the GPU is gone");
  ASSERT_EQ(munmap(page, 4096), 0);
  const uint64_t calls = gpu().Calls("");
  (void)session().Drain();
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(gpu().Calls(""), calls);
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
  EXPECT_THAT(session().report().lost_by_cause, ElementsAre(Pair(LossCause::kGpuUnread, 2)));
  EXPECT_EQ(session().report().state, CollectorState::kDegraded);
  EXPECT_THAT(session().report().reason,
              AllOf(HasSubstr("the GPU is gone"), HasSubstr("HARDWARE")));
  // The next capture begins anew.
  driver_.reset();
  Begin();
  gpu().Launch(kAdd);
  Finish();
  EXPECT_EQ(session().report().state, CollectorState::kOn) << session().report().reason;
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
}

// A machine that is busy, and no call that hangs.
TEST_F(CudaFailuresTest, AFirstCallThatIsSlowIsNoHang) {
  options_.limits.flush_hangs = absl::Seconds(100);
  ASSERT_TRUE(session().Arm().ok());
  gpu().Hang("cuptiActivityGetNumDroppedRecords");
  ASSERT_TRUE(session().Start().ok());
  (void)session().Drain();
  gpu().Release();
  gpu().Launch(kAdd);
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().report().state, CollectorState::kOn) << session().report().reason;
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
}

// They may be from before the window, or not.
TEST_F(CudaFailuresTest, RecordsDroppedUntilASlowFirstCallReturnsAreCounted) {
  options_.limits.flush_hangs = absl::Seconds(100);
  ASSERT_TRUE(session().Arm().ok());
  gpu().Hang("cuptiActivityGetNumDroppedRecords");
  ASSERT_TRUE(session().Start().ok());
  gpu().AddDropped(7);
  gpu().Release();
  gpu().Launch(kAdd);
  Finish();
  session().ExpectIdentity();
  EXPECT_THAT(session().report().lost_by_cause, ElementsAre(Pair(LossCause::kCuptiDropped, 7)));
}

TEST_F(CudaFailuresTest, ACallThatHangsCostsTheGpuPartAndNothingElse) {
  ExpectHangAtBegin();
  for (const char* const function :
       {"cuptiSubscribe", "cuptiActivityRegisterCallbacks", "cuptiActivityEnable"}) {
    SCOPED_TRACE(function);
    ExpectWithin(absl::Seconds(3), [&] {
      driver_.reset();
      gpu().Reset(130001);
      gpu().Hang(function);
      const absl::Time before = absl::Now();
      const absl::Status status = session().Arm();
      const absl::Duration took = absl::Now() - before;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(function), HasSubstr("has not returned")));
      // While it hangs, the next capture is refused at once.
      EXPECT_THAT(std::string(collector().Arm(session().request()).message()),
                  HasSubstr("still hangs"));
      gpu().Release();
      // Once it is back, what it did is undone.
      const absl::Time deadline = absl::Now() + absl::Seconds(10);
      while ((gpu().Calls("cuptiUnsubscribe") == 0 || gpu().IsSubscribed() != 0) &&
             absl::Now() < deadline) {
        std::this_thread::yield();
      }
      EXPECT_EQ(gpu().IsSubscribed(), 0);
      EXPECT_EQ(gpu().IsEnabled(10), 0);
      collector_.reset();
      return took;
    });
  }
}

TEST_F(CudaFailuresTest, AFlushThatHangsWhileRecordingEndsTheGpuPartOnly) {
  ExpectHangAtEnd();
  options_.limits.flush_hangs = absl::Milliseconds(100);
  Begin();
  EXPECT_TRUE(gpu().Deliver(Encode(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000), 130001)));
  gpu().Hang("cuptiActivityFlushAll");
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (session().Drain() != absl::InfiniteDuration() && absl::Now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_LT(absl::Now(), deadline);
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
  EXPECT_EQ(session().report().state, CollectorState::kDegraded);
  EXPECT_THAT(session().report().reason, HasSubstr("cuptiActivityFlushAll"));
}

TEST_F(CudaFailuresTest, AHangAtTheEndKeepsWhatThereIs) {
  ExpectHangAtEnd();
  for (const char* const function : {"cuptiActivityFlushAll", "cuptiActivityDisable",
                                     "cuptiUnsubscribe", "cuptiActivityGetNumDroppedRecords"}) {
    SCOPED_TRACE(function);
    ExpectWithin(absl::Milliseconds(1900), [&] {
      driver_.reset();
      collector_.reset();
      gpu().Reset(130001);
      Begin();
      EXPECT_TRUE(gpu().Deliver(Encode(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000), 130001)));
      gpu().Hang(function);
      const absl::Duration took = FinishInAHang(function);
      gpu().Release();
      ExpectUnsubscribed();
      return took;
    });
  }
}

// Whatever hangs, now or before.
TEST_F(CudaFailuresTest, KernelsThatStayTracedAreSaidAlsoIfACallHangs) {
  ExpectHangAtEnd();
  for (const char* const function : {"cuptiUnsubscribe", "cuptiActivityFlushAll"}) {
    SCOPED_TRACE(function);
    RenewCollector(27);
    Begin();
    EXPECT_TRUE(gpu().Deliver(Encode(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000), 27)));
    gpu().Hang(function);
    FinishInAHang(function);
    EXPECT_THAT(session().report().warnings,
                Contains(HasSubstr("goes on tracing kernels")).Times(1));
    gpu().Release();
    ExpectUnsubscribed();
    LeaveGpu();
  }
}

// The session stops waiting for Stop after 2 s.
TEST_F(CudaFailuresTest, WhatThereIsNoTimeToReadAtTheEndIsCounted) {
  options_.limits.stop = absl::ZeroDuration();
  Begin();
  const Bytes kernel = Encode(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000), 130001);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(gpu().Deliver(cuda::Join({kernel, kernel})));
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().report().attempted, 40u);
  EXPECT_GT(session().report().lost_by_cause.at(LossCause::kGpuUnread), 0u);
}

}  // namespace
}  // namespace jobscope
