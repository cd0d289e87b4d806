// SPDX-License-Identifier: Apache-2.0
//
// The parts of the CUDA collector that need no CUPTI.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collectors/cuda/cuda_collector.h"
#include "collectors/cuda/libraries/loader.h"
#include "collectors/cuda/libraries/result_text.h"
#include "collectors/cuda/records/activity_names.h"
#include "collectors/cuda/records/clock_map.h"
#include "collectors/cuda/records/kernel_names.h"
#include "collectors/cuda/records/occupancy.h"
#include "collectors/cuda/records/step_timeline.h"
#include "collectors/cuda/tracing/buffer_pool.h"
#include "common/threads/detached_caller.h"
#include "tests/quiet_stopwatch.h"

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

TEST(DetachedCallerTest, GivesUpOnACallThatHangs) {
  std::mutex mutex;
  std::condition_variable changed;
  bool go_on = false;
  DetachedCaller calls("test");
  EXPECT_TRUE(calls.Run("quick", absl::Seconds(10), [] {}));
  EXPECT_FALSE(calls.Run("slow", absl::Milliseconds(5), [&] {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return go_on; });
  }));
  EXPECT_TRUE(calls.busy());
  EXPECT_EQ(calls.running(), "slow");
  EXPECT_FALSE(calls.Post("another", [] {}));
  {
    const std::lock_guard<std::mutex> lock(mutex);
    go_on = true;
    changed.notify_all();
  }
  EXPECT_TRUE(calls.Wait(absl::Seconds(10)));
  EXPECT_TRUE(calls.Run("again", absl::Seconds(10), [] {}));
}

TEST(WithoutCudaTest, ACaptureIsNotDelayedAndNothingIsLoaded) {
  CudaCollector collector(/*uses_tsc=*/false, {});
  EXPECT_EQ(collector.Describe().state, CollectorState::kOff);
  constexpr int kCaptures = 20;
  const QuietStopwatch begin;
  for (int i = 0; i < kCaptures; ++i) {
    // Nothing is written, so there is nothing to write to.
    ASSERT_TRUE(collector.Arm(ArmRequest()).ok());
    ASSERT_TRUE(collector.Start(StartRequest()).ok());
    EXPECT_EQ(collector.Drain(), absl::InfiniteDuration());
    ASSERT_TRUE(collector.Stop(0).ok());
    const CollectorReport report = collector.Report();
    EXPECT_EQ(report.state, CollectorState::kOff);
    EXPECT_FALSE(report.reason.empty());
    EXPECT_EQ(report.attempted, 0u);
  }
  // The budget of one is 20 ms.
  EXPECT_LT(begin.Elapsed(), kCaptures * absl::Milliseconds(20));
  EXPECT_THAT(MappedCupti(), ::testing::IsEmpty());
}

// The pool is the process's: each test leaves it as it found it.
class BufferPoolTest : public ::testing::Test {
 protected:
  static constexpr size_t kBuffers = 4;
  BufferPool& pool_ = BufferPool::Get();

  void SetUp() override {
    std::string error;
    ASSERT_TRUE(pool_.Prepare(kBuffers, 2, /*null_is_safe=*/true, &error)) << error;
    (void)pool_.TakeCounts();
    pool_.SetMode(BufferPool::Mode::kRecording);
  }
  void TearDown() override {
    pool_.SetMode(BufferPool::Mode::kIdle);
    while (const auto full = pool_.TakeFull()) pool_.Free(full->slot);
    pool_.ReleaseMemory();
    EXPECT_EQ(pool_.LentWithRecords(), 0u);
  }
  static uint8_t* Request() {
    uint8_t* buffer = nullptr;
    size_t size = 0;
    size_t records = 1;
    BufferPool::Request(&buffer, &size, &records);
    EXPECT_EQ(records, 0u);
    EXPECT_EQ(size, buffer == nullptr ? 0 : BufferPool::kBufferBytes);
    // As CUPTI does; and a first record.
    if (buffer != nullptr) {
      std::memset(buffer, 0, BufferPool::kBufferBytes);
      buffer[0] = 10;
    }
    return buffer;
  }
  static void Complete(uint8_t* buffer, size_t valid) {
    BufferPool::Complete(nullptr, 0, buffer, BufferPool::kBufferBytes, valid);
  }
};

TEST_F(BufferPoolTest, BuffersComeBackInTheOrderOfCompletion) {
  uint8_t* const a = Request();
  uint8_t* const b = Request();
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 8, 0u);
  Complete(b, 100);
  Complete(a, 200);
  auto full = pool_.TakeFull();
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(full->data, b);
  EXPECT_EQ(full->bytes, 100u);
  pool_.Free(full->slot);
  full = pool_.TakeFull();
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(full->data, a);
  pool_.Free(full->slot);
  EXPECT_FALSE(pool_.TakeFull().has_value());
}

TEST_F(BufferPoolTest, WhatCuptiHoldsIsKnownByTheRecordsInItAndByItsAge) {
  uint8_t* const written = Request();
  uint8_t* const late = Request();
  uint8_t* const empty = Request();
  late[0] = 0;
  late[400] = 10;  // the first record is reserved, and the second one written
  empty[0] = 0;
  const uint64_t mark = pool_.Mark();
  uint8_t* const after = Request();
  EXPECT_EQ(pool_.LentWithRecords(mark), 2u);
  EXPECT_EQ(pool_.LentWithRecords(), 3u);
  Complete(written, 100);
  Complete(late, 100);
  EXPECT_EQ(pool_.LentWithRecords(mark), 0u);
  // Used again, it is younger than the mark.
  pool_.Free(pool_.TakeFull()->slot);
  EXPECT_EQ(Request(), written);
  EXPECT_EQ(pool_.LentWithRecords(mark), 0u);
  EXPECT_EQ(pool_.LentWithRecords(), 2u);
  for (uint8_t* const buffer : {written, empty, after}) Complete(buffer, 0);
}

TEST_F(BufferPoolTest, OverTheCapNothingIsGivenWhereThatIsSafe) {
  std::vector<uint8_t*> taken;
  for (size_t i = 0; i < kBuffers; ++i) taken.push_back(Request());
  EXPECT_EQ(Request(), nullptr);
  EXPECT_EQ(pool_.LentWithRecords(), kBuffers);
  for (uint8_t* const buffer : taken) Complete(buffer, 0);
  EXPECT_EQ(pool_.TakeCounts().refused, 1u);
  EXPECT_FALSE(pool_.TakeFull().has_value());  // empty ones are free again at once
}

TEST_F(BufferPoolTest, OverTheCapOldVersionsGetScrap) {
  std::string error;
  ASSERT_TRUE(pool_.Prepare(kBuffers, 0, /*null_is_safe=*/false, &error));
  std::vector<uint8_t*> taken;
  for (size_t i = 0; i < kBuffers + BufferPool::kScrapBuffers; ++i) taken.push_back(Request());
  for (uint8_t* const buffer : taken) ASSERT_NE(buffer, nullptr);
  uint8_t* const shared = Request();
  ASSERT_NE(shared, nullptr);
  const BufferPool::Counts counts = pool_.TakeCounts();
  EXPECT_EQ(counts.scrapped, BufferPool::kScrapBuffers + 1);
  EXPECT_EQ(counts.shared, 1u);
  Complete(taken.back(), 64);
  const auto full = pool_.TakeFull();
  ASSERT_TRUE(full.has_value());
  EXPECT_TRUE(full->scrap);
  pool_.Free(full->slot);
  Complete(shared, 64);  // the same one, back a second time
  taken.pop_back();
  for (uint8_t* const buffer : taken) Complete(buffer, 0);
}

TEST_F(BufferPoolTest, BeforeTheStartTheOldestRecordsMakeRoom) {
  pool_.SetMode(BufferPool::Mode::kArmed);
  for (size_t i = 0; i < 3 * kBuffers; ++i) {
    uint8_t* const buffer = Request();
    ASSERT_NE(buffer, nullptr) << i;
    Complete(buffer, i + 1);
  }
  EXPECT_EQ(pool_.TakeCounts().recycled, 2 * kBuffers);
  const auto oldest = pool_.TakeFull();
  ASSERT_TRUE(oldest.has_value());
  EXPECT_EQ(oldest->bytes, 2 * kBuffers + 1);
  pool_.Free(oldest->slot);
}

TEST_F(BufferPoolTest, WhatComesBackLateIsCountedAndThrownAway) {
  uint8_t* const late = Request();
  pool_.SetMode(BufferPool::Mode::kIdle);
  Complete(late, 10);
  EXPECT_FALSE(pool_.TakeFull().has_value());
  EXPECT_EQ(pool_.TakeCounts().late, 1u);
}

TEST_F(BufferPoolTest, StrangePointersAreCounted) {
  uint8_t strange = 0;
  Complete(&strange, 10);
  uint8_t* const own = Request();
  Complete(own + 8, 10);
  Complete(nullptr, 10);
  EXPECT_EQ(pool_.TakeCounts().foreign, 2u);
  Complete(own, 0);
}

TEST_F(BufferPoolTest, TheMemoryOfFreeBuffersGoesBack) {
  uint8_t* const lent = Request();
  uint8_t* const free = Request();
  std::memset(lent, 7, BufferPool::kBufferBytes);
  std::memset(free, 7, BufferPool::kBufferBytes);
  Complete(free, 0);
  pool_.ReleaseMemory();
  unsigned char present = 1;
  ASSERT_EQ(mincore(free, 4096, &present), 0);
  EXPECT_EQ(present & 1, 0);
  EXPECT_EQ(lent[BufferPool::kBufferBytes - 1], 7);  // CUPTI may still write there
  Complete(lent, 0);
}

// CUPTI's own code may look into one as a child exits; it works there no more than CUDA does.
TEST_F(BufferPoolTest, AForkedChildMayTouchThem) {
  uint8_t* const buffer = Request();
  std::memset(buffer, 7, BufferPool::kBufferBytes);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const volatile uint8_t* const seen = buffer;
    _exit(seen[0] == 0 && seen[BufferPool::kBufferBytes - 1] == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(buffer[0], 7);
  Complete(buffer, 0);
}

// CUPTI that was taken out of the process gives back nothing of what it held. A thread of it that
// is slow to end may still write there, so what it held is used again only when a further CUPTI has
// come and gone.
TEST_F(BufferPoolTest, WhatAFinalizedCuptiHeldIsUsedAgainLater) {
  std::string error;
  uint8_t* const slow = Request();
  for (size_t i = 1; i < kBuffers; ++i) ASSERT_NE(Request(), nullptr);
  pool_.Forsake();
  EXPECT_EQ(pool_.LentWithRecords(), 0u);
  Complete(slow, 100);  // late: thrown away, and free
  EXPECT_FALSE(pool_.TakeFull().has_value());
  EXPECT_EQ(pool_.TakeCounts().late, 1u);
  ASSERT_TRUE(pool_.Prepare(kBuffers, 0, true, &error));
  EXPECT_EQ(Request(), slow);
  EXPECT_EQ(Request(), nullptr);
  Complete(slow, 0);
  pool_.Forsake();
  ASSERT_TRUE(pool_.Prepare(kBuffers, 0, true, &error));
  std::vector<uint8_t*> again;
  for (size_t i = 0; i < kBuffers; ++i) again.push_back(Request());
  for (uint8_t* const buffer : again) EXPECT_NE(buffer, nullptr);
  for (uint8_t* const buffer : again) Complete(buffer, 0);
}

TEST_F(BufferPoolTest, ThreadsNeverShareABuffer) {
  std::atomic<int> clashes{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20'000; ++i) {
        uint8_t* const buffer = Request();
        if (buffer == nullptr) continue;
        *reinterpret_cast<volatile int*>(buffer) = t;
        if (*reinterpret_cast<volatile int*>(buffer) != t) ++clashes;
        Complete(buffer, i % 2 == 0 ? 8 : 0);
      }
    });
  }
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) {
      while (const auto full = pool_.TakeFull()) pool_.Free(full->slot);
    }
  });
  for (std::thread& thread : threads) thread.join();
  done = true;
  reader.join();
  EXPECT_EQ(clashes, 0);
}

}  // namespace
}  // namespace jobscope::cuda
