// SPDX-License-Identifier: Apache-2.0
//
// The parts of the CUDA collector that need no CUPTI.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "collectors/cuda/cuda_collector.h"
#include "collectors/cuda/libraries/loader.h"
#include "collectors/cuda/libraries/result_text.h"
#include "collectors/cuda/records/activity_names.h"
#include "collectors/cuda/records/clock_map.h"
#include "collectors/cuda/records/correlations.h"
#include "collectors/cuda/records/event_writer.h"
#include "collectors/cuda/records/kernel_names.h"
#include "collectors/cuda/records/occupancy.h"
#include "collectors/cuda/records/step_timeline.h"
#include "common/process/fork_pause.h"
#include "tests/again_if_busy.h"

namespace jobscope::cuda {
namespace {

using ::testing::HasSubstr;

TEST(KernelNamesTest, AreDemangledWithoutTheirReturnType) {
  EXPECT_EQ(KernelName("_Z6vecAddPKfS0_Pfi"), "vecAdd(float const*, float const*, float*, int)");
  EXPECT_EQ(KernelName("_Z4fillIfEvPT_i"), "fill<float>(float*, int)");
  EXPECT_EQ(KernelName("ncclDevKernel_AllReduce"), "ncclDevKernel_AllReduce");
  EXPECT_EQ(KernelName("_Znonsense"), "_Znonsense");
  EXPECT_EQ(KernelName(""), "kernel");
  EXPECT_EQ(KernelName(std::string(100'000, 'x')).size(), kMaxNameBytes);
}

TEST(KernelNamesTest, LaunchesAreCalledAfterTheShortName) {
  KernelNames names;
  const uint32_t fill = names.Find("_Z4fillIfEvPT_i");
  EXPECT_EQ(names.LaunchName(fill), "Launch fill");
  EXPECT_EQ(names.Find("_Z4fillIfEvPT_i"), fill);
  EXPECT_EQ(names.LaunchName(names.Find("_ZN12_GLOBAL__N_14copyEPf")), "Launch anonymous::copy");
  EXPECT_EQ(names.Name(names.Find(nullptr)), "kernel");
  const std::string giant(200'000, 'g');
  EXPECT_EQ(names.Name(names.Find(giant.c_str())).size(), kMaxNameBytes);
}

TEST(KernelNamesTest, CallsLoseTheirVersion) {
  EXPECT_EQ(ApiName("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
  EXPECT_EQ(ApiName("cudaLaunchKernel_ptsz_v7000"), "cudaLaunchKernel");
  EXPECT_EQ(ApiName("cuMemAlloc_v2"), "cuMemAlloc_v2");
  EXPECT_EQ(ApiName("cuLaunchKernel_ptsz"), "cuLaunchKernel");
  EXPECT_TRUE(IsLaunch("cudaLaunchKernelExC"));
  EXPECT_TRUE(IsLaunch("cuGraphLaunch"));
  EXPECT_FALSE(IsLaunch("cudaMemcpyAsync"));
  for (const char* const of_the_host :
       {"cudaLaunchHostFunc_v10000", "cudaLaunchHostFunc_v2_ptsz_v13020", "cuLaunchHostFunc",
        "cuLaunchHostFunc_v2_ptsz"}) {
    EXPECT_FALSE(IsLaunch(ApiName(of_the_host))) << of_the_host;
  }
}

TEST(KernelNamesTest, CallsThatNeverCauseWorkAreKnown) {
  for (const char* const name :
       {"cudaEventQuery", "cudaStreamQuery", "cuEventQuery", "cudaEventRecord", "cudaGetLastError",
        "cudaPeekAtLastError", "cudaDeviceSynchronize", "cuStreamWaitEvent", "cuCtxSetCurrent"}) {
    EXPECT_TRUE(IsWithoutWork(name)) << name;
  }
  for (const char* const name :
       {"cudaLaunchKernel", "cuLaunchKernelEx", "cudaGraphLaunch", "cudaMemcpyAsync", "cudaMemset",
        "cuMemcpyHtoD_v2", "cudaMemPrefetchAsync", "cudaStreamBeginCapture", "cudaStreamEndCapture",
        "cudaFree", "CUDA runtime call 17"}) {
    EXPECT_FALSE(IsWithoutWork(name)) << name;
  }
}

// 400,000 calls per second, for ten seconds.
TEST(CorrelationsTest, AreBoundedHoweverManyCallsThereAre) {
  constexpr uint64_t kSecond = 1'000'000'000;
  constexpr uint32_t kIds = 4'000'000;
  const Window window;
  EventWriter::Call calls[3];
  calls[0].may_have_work = false;  // cudaEventQuery
  calls[2].launches = true;
  for (size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    const EventWriter::Call& call = calls[i];
    Correlations correlations;
    size_t most = 0;
    uint64_t last_forgotten = 0;
    TimedActivity timed;
    timed.activity.type = ActivityType::kApi;
    for (uint32_t id = 1; id <= kIds; ++id) {
      timed.activity.correlation = id;
      timed.start_ticks = 100 * kSecond + id * (10 * kSecond / kIds);
      correlations.NoteCall(timed, call);
      if (timed.start_ticks - last_forgotten < kSecond / 4) continue;
      last_forgotten = timed.start_ticks;
      most = std::max(most, correlations.size());
      correlations.ForgetOlderThan(timed.start_ticks - 10 * kSecond,
                                   timed.start_ticks - 2 * kSecond, window);
    }
    EXPECT_LT(most, call.may_have_work ? 1'200'000u : 1u);
    // Each launch is in flight or forgotten.
    EXPECT_EQ(correlations.InFlight(window) + correlations.forgotten_launches(),
              call.launches ? kIds : 0u);
  }
}

// A process that exits does not wait for what is held.
TEST(CorrelationsTest, AWaitIsSettledWithoutItsCall) {
  EventWriter::Call call;
  call.may_have_work = false;  // cudaStreamSynchronize
  Correlations correlations;
  TimedActivity timed;
  timed.activity.type = ActivityType::kApi;
  timed.activity.correlation = 7;
  correlations.NoteCall(timed, call);
  EXPECT_TRUE(correlations.IsSettled(timed.activity));
  timed.activity.type = ActivityType::kSync;
  EXPECT_TRUE(correlations.IsSettled(timed.activity));
  timed.activity.type = ActivityType::kKernel;
  EXPECT_FALSE(correlations.IsSettled(timed.activity));
}

TEST(ActivityNamesTest, CopiesAreSpelledAsXProfReadsThem) {
  EXPECT_EQ(CopyName(1), "MemcpyHtoD");
  EXPECT_EQ(CopyName(2), "MemcpyDtoH");
  EXPECT_EQ(CopyName(8), "MemcpyDtoD");
  EXPECT_EQ(CopyName(10), "MemcpyDtoD");
  EXPECT_EQ(CopyName(200), "Memcpy");
  Activity copy;
  copy.bytes = 4096;
  copy.source_memory = 2;
  copy.destination_memory = 3;
  EXPECT_EQ(CopyDetails(copy), "num_bytes:4096\nfrom:pinned\nto:device\nasync:0");
  EXPECT_EQ(OverheadName(1), "driver compiler");
  EXPECT_EQ(OverheadName(7u << 16), "CUPTI buffer request");
  EXPECT_EQ(OverheadName(99u << 16), "overhead");
}

TEST(OccupancyTest, FollowsTheNarrowestLimit) {
  DeviceInfo h100;
  h100.compute_major = 9;
  h100.max_threads_per_multiprocessor = 2048;
  h100.max_blocks_per_multiprocessor = 32;
  h100.registers_per_multiprocessor = 65536;
  h100.shared_bytes_per_multiprocessor = 233472;
  h100.reserved_shared_bytes_per_block = 1024;
  Activity kernel;
  kernel.block[0] = 256;
  kernel.block[1] = kernel.block[2] = 1;
  kernel.registers = 32;
  EXPECT_DOUBLE_EQ(*OccupancyPercent(kernel, h100), 100);
  kernel.registers = 64;  // 32 warps
  EXPECT_DOUBLE_EQ(*OccupancyPercent(kernel, h100), 50);
  kernel.registers = 32;
  kernel.dynamic_shared_bytes = 100 * 1024;  // two blocks of 8 warps
  EXPECT_DOUBLE_EQ(*OccupancyPercent(kernel, h100), 25);
  kernel.dynamic_shared_bytes = 0;
  kernel.block[0] = 32;  // 32 blocks of one warp
  EXPECT_DOUBLE_EQ(*OccupancyPercent(kernel, h100), 50);
  EXPECT_FALSE(OccupancyPercent(kernel, DeviceInfo()).has_value());
  kernel.block[0] = -5;
  EXPECT_FALSE(OccupancyPercent(kernel, h100).has_value());
}

TEST(ResultTextTest, EveryResultHasATextAndMostARemedy) {
  for (int result = 0; result <= 46; ++result) {
    const ResultText* const text = FindResultText(result);
    ASSERT_NE(text, nullptr) << result;
    EXPECT_EQ(text->result, result);
    EXPECT_FALSE(text->name.empty());
    EXPECT_FALSE(text->text.empty());
  }
  ASSERT_NE(FindResultText(999), nullptr);
  EXPECT_EQ(FindResultText(12345), nullptr);
}

TEST(ResultTextTest, NamesTheCulpritAndTheRemedy) {
  FailureContext context;
  context.call = "cuptiActivityEnable";
  context.cupti_version = 22;
  context.driver_version = 12020;
  const std::string text = FailureText(35, context);
  EXPECT_THAT(text, HasSubstr("NVreg_RestrictProfilingToAdminUsers=0"));
  EXPECT_THAT(text, HasSubstr("RmProfilingAdminOnly"));
  EXPECT_THAT(text, HasSubstr("cuptiActivityEnable: 35 INSUFFICIENT_PRIVILEGES"));
  EXPECT_THAT(text, HasSubstr("CUPTI 12.4"));
  EXPECT_THAT(text, HasSubstr("driver for CUDA 12.2"));
  context.old_owner = "nsys";
  EXPECT_THAT(FailureText(39, context), HasSubstr("already being profiled by nsys"));
  EXPECT_THAT(FailureText(12345, context), HasSubstr("12345"));
}

TEST(VersionTest, NumbersBecomeReleases) {
  EXPECT_EQ(CuptiVersionText(13), "11.0");
  EXPECT_EQ(CuptiVersionText(28), "12.9.1");
  EXPECT_EQ(CuptiVersionText(130000), "13.0");
  EXPECT_EQ(CuptiVersionText(130301), "13.3.1");
  EXPECT_EQ(CuptiVersionText(25), "of API version 25");
  EXPECT_EQ(CuptiMajor(18), 11u);
  EXPECT_EQ(CuptiMajor(19), 12u);
  EXPECT_EQ(CuptiMajor(130001), 13u);
  EXPECT_EQ(CuptiMajor(12), 0u);
}

// A pair of clocks of which the test says how they run.
struct Clocks {
  uint64_t ticks = 1'000'000'000;
  double ticks_per_ns = 2.5;
  double ns = 1.7e18;
  void Pass(double ns_passed) {
    ns += ns_passed;
    ticks += static_cast<uint64_t>(std::llround(ns_passed * ticks_per_ns));
  }
  ClockMap Map() {
    return ClockMap([this] { return static_cast<uint64_t>(ns); }, [this] { return ticks; }, 2.5e9);
  }
};

double Distance(uint64_t a, uint64_t b) {
  return std::abs(static_cast<double>(static_cast<int64_t>(a - b)));
}

TEST(ClockMapTest, FollowsAClockThatIsSlewed) {
  Clocks clocks;
  ClockMap map = clocks.Map();
  map.AddKnot();
  std::vector<std::pair<uint64_t, uint64_t>> truth;
  for (int i = 0; i < 50; ++i) {
    clocks.ticks_per_ns = 2.5 * (1 + (i % 2 == 0 ? 4e-4 : -4e-4));
    for (int k = 0; k < 10; ++k) {
      clocks.Pass(1e7);
      truth.emplace_back(static_cast<uint64_t>(clocks.ns), clocks.ticks);
    }
    map.AddKnot();
  }
  EXPECT_EQ(map.steps(), 0u);
  // ns of 2^60 have a grain of 256 in a double: so much may the truth itself be off.
  for (const auto& [ns, ticks] : truth) EXPECT_LT(Distance(map.ToTicks(ns), ticks), 1000);
}

TEST(ClockMapTest, AStepIsCountedAndNothingBeforeItMoves) {
  Clocks clocks;
  ClockMap map = clocks.Map();
  map.AddKnot();
  clocks.Pass(1e8);
  map.AddKnot();
  const auto before_ns = static_cast<uint64_t>(clocks.ns);
  const uint64_t before_ticks = clocks.ticks;
  clocks.ns += 5e9;  // set forward
  clocks.Pass(1e8);
  map.AddKnot();
  EXPECT_EQ(map.steps(), 1u);
  EXPECT_LT(Distance(map.ToTicks(before_ns), before_ticks), 1000);
  EXPECT_LT(Distance(map.ToTicks(static_cast<uint64_t>(clocks.ns)), clocks.ticks), 1000);
  clocks.ns -= 60e9;  // and back
  clocks.Pass(1e8);
  map.AddKnot();
  EXPECT_EQ(map.steps(), 2u);
  EXPECT_LT(Distance(map.ToTicks(static_cast<uint64_t>(clocks.ns)), clocks.ticks), 1000);
}

// Nanoseconds since 1970 have a grain of 256 in a double.
TEST(ClockMapTest, IsExactToANanosecondAndNeverStepsBack) {
  uint64_t ns = 1'800'000'000'000'000'077;
  constexpr uint64_t kOffset = 1'799'999'000'000'000'000;
  ClockMap map([&ns] { return ns; }, [&ns] { return ns - kOffset; }, 1e9);
  std::vector<uint64_t> knots;
  for (int i = 0; i < 50; ++i) {
    map.AddKnot();
    knots.push_back(ns);
    ns += 100'000'101;
  }
  ASSERT_EQ(map.knots(), knots.size());
  uint64_t last = 0;
  for (const uint64_t knot : knots) {
    for (const uint64_t at : {knot - 1, knot, knot + 1, knot + 50'000'000}) {
      const uint64_t ticks = map.ToTicks(at);
      EXPECT_LE(Distance(ticks, at - kOffset), 1);
      EXPECT_GE(ticks, last) << at;
      last = ticks;
    }
  }
}

TEST(ClockMapTest, ABrokenClockGivesNoKnot) {
  ClockMap map([] { return uint64_t{0}; }, [] { return uint64_t{5}; }, 1e9);
  map.AddKnot();
  EXPECT_EQ(map.knots(), 0u);
  EXPECT_EQ(map.ToTicks(123), 0u);
}

TEST(ClockMapTest, TimesBeforeAndBehindTheKnotsAreExtrapolated) {
  Clocks clocks;
  ClockMap map = clocks.Map();
  clocks.Pass(1e9);
  map.AddKnot();
  const auto ns = static_cast<uint64_t>(clocks.ns);
  EXPECT_LT(Distance(map.ToTicks(ns - 1'000'000), clocks.ticks - 2'500'000), 1000);
  EXPECT_LT(Distance(map.ToTicks(ns + 1'000'000), clocks.ticks + 2'500'000), 1000);
}

TEST(StepTimelineTest, FindsTheStepOfAnInstant) {
  std::vector<StepSpan> source = {{1, 100, 200}, {2, 200, 300}, {3, 350, 0}};
  StepTimeline steps([&] { return source; });
  steps.Update();
  EXPECT_EQ(steps.Find(50), nullptr);
  ASSERT_NE(steps.Find(150), nullptr);
  EXPECT_EQ(steps.Find(150)->number, 1);
  EXPECT_EQ(steps.Find(200)->number, 2);
  EXPECT_EQ(steps.Find(320), nullptr);
  EXPECT_EQ(steps.Find(1000)->number, 3);
  source = {{3, 350, 400}, {4, 400, 0}};
  steps.Update();
  EXPECT_EQ(steps.Find(360)->end_ticks, 400u);
  EXPECT_EQ(steps.Find(150)->number, 1);
  EXPECT_EQ(steps.Whole(100, 400), 3u);
  EXPECT_EQ(steps.Whole(150, 399), 1u);
  StepTimeline none{RecentSteps()};
  none.Update();
  EXPECT_EQ(none.Find(1), nullptr);
}

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
