// SPDX-License-Identifier: Apache-2.0
//
// Tests the end of a capture of a busy GPU: kernels that ran, that were queued, and that were
// launched later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "jobscope/v1/item.pb.h"
#include "tests/collectors/cuda/collector_fixture.h"

namespace jobscope {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using cuda::Bytes;
using cuda::FakeGpu;
using cuda::RealtimeNs;

constexpr uint32_t kKindKernel = 10;

// Memory in use of the mapping that holds the address.
size_t ResidentBytesAround(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    size_t kilobytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      found = begin <= wanted && wanted < end;
    } else if (found && std::sscanf(line.c_str(), "Rss: %zu kB", &kilobytes) == 1) {
      return kilobytes << 10;
    }
  }
  ADD_FAILURE() << "no mapping holds " << address;
  return 0;
}

class CudaStopTest : public CudaCollectorTest {
 protected:
  // Ends the capture now. `device` runs on a thread of its own, once Stop waits for work.
  void StopWhile(const std::function<void()>& device) {
    const uint64_t flushes = gpu().Calls("cuptiActivityFlushAll");
    std::thread thread([&] {
      while (gpu().Calls("cuptiActivityFlushAll") < flushes + 2) std::this_thread::yield();
      device();
    });
    session().Stop();
    thread.join();
    session().ExpectIdentity();
  }
  // Ends the capture now. On a thread of its own, `during` runs in Stop's first flush, and `after`
  // once two more have begun, or Stop has ended.
  void StopAround(const std::function<void()>& during, const std::function<void()>& after) {
    gpu().Hang("cuptiActivityFlushAll");
    std::atomic<bool> stopped{false};
    std::thread program([&] {
      EXPECT_EQ(gpu().AwaitHang(), 1);
      during();
      const uint64_t flushes = gpu().Calls("cuptiActivityFlushAll");
      gpu().Release();
      while (gpu().Calls("cuptiActivityFlushAll") < flushes + 2 && !stopped) {
        std::this_thread::yield();
      }
      after();
    });
    session().Stop();
    stopped = true;
    program.join();
    session().ExpectIdentity();
  }
  // The records of a launch of this thread that returns now: the number of its kernel, which waits.
  static uint64_t ReturnFromLaunch(uint64_t called_ns) {
    const uint32_t correlation = FakeGpu::NextCorrelation();
    const uint64_t work = gpu().Emit(FakeGpu::Kernel(kAdd, correlation, 0, 0));
    EXPECT_NE(gpu().Emit(FakeGpu::Call(cuda::kLaunchKernelCall, correlation, called_ns)), 0u);
    return work;
  }
  // A call of this thread that has not returned.
  static void EmitWaiting() {
    cuda::Activity call =
        FakeGpu::Call(cuda::kStreamSynchronizeCall, FakeGpu::NextCorrelation(), 0);
    call.start_ns = call.end_ns = 0;
    EXPECT_NE(gpu().Emit(call), 0u);
  }
  static void Run(uint64_t work, uint64_t start_ns, uint64_t length_ns) {
    EXPECT_EQ(gpu().SetTimes(work, start_ns, start_ns + length_ns), 1);
  }
};

// CUPTI withholds the buffer with the work in it, and the launches beside it: nothing that has come
// tells that something is in flight.
TEST_F(CudaStopTest, WorkThatEndsSoonAfterTheCaptureIsInTheTraceWhole) {
  options_.limits.work_in_flight = absl::Seconds(20);
  Begin();
  const uint64_t base_ns = RealtimeNs();
  std::vector<uint64_t> queue;
  for (int i = 0; i < 10; ++i) queue.push_back(gpu().LaunchPending(kAdd));
  Run(queue[0], base_ns, 1'000);
  StopWhile([&] {
    // Disabled, it would not get its times any more.
    EXPECT_EQ(gpu().IsEnabled(kKindKernel), 1);
    for (size_t i = 1; i < queue.size(); ++i) Run(queue[i], base_ns + i * 2'000, 1'000);
  });
  EXPECT_EQ(gpu().IsEnabled(kKindKernel), 0);
  EXPECT_EQ(session().Named(kAddName).size(), 10u);
  EXPECT_EQ(session().Named("Launch vecAdd").size(), 10u);
  EXPECT_THAT(session().report().lost_by_cause, IsEmpty());
}

TEST_F(CudaStopTest, TheKernelThatRunsIsCutAndThoseThatWaitAreUnfinished) {
  Begin();
  std::vector<uint64_t> queue;
  for (int i = 0; i < 5; ++i) queue.push_back(gpu().LaunchPending(kAdd));
  EXPECT_EQ(gpu().SetTimes(queue[0], RealtimeNs(), 0), 1);  // begun, not ended
  const uint64_t end = session().Now() + 1'000'000;
  session().StopAt(end);
  session().ExpectIdentity();
  const ReadEvent running = session().One(kAddName);
  EXPECT_EQ(running.end_ps(), session().map().ToPs(end));
  EXPECT_EQ(running.ints.at("truncated"), 1);
  EXPECT_GE(gpu().Calls(kForcedWhileTraced), 1u);  // CUPTI withholds its record
  EXPECT_EQ(session().Named("Launch vecAdd").size(), 5u);
  EXPECT_THAT(session().report().lost_by_cause, ElementsAre(Pair(LossCause::kGpuUnfinished, 4)));
}

// Its record comes in a buffer that CUPTI took after the end.
TEST_F(CudaStopTest, TheKernelOfALaunchThatReturnsAfterTheEndIsWaitedFor) {
  options_.limits.work_in_flight = absl::Seconds(20);
  Begin();
  gpu().Launch(kAdd);
  const uint64_t called_ns = RealtimeNs();
  uint64_t work = 0;
  StopAround([&] { work = ReturnFromLaunch(called_ns); },
             [&] { Run(work, called_ns + 1'000, 1'000); });
  EXPECT_EQ(session().Named(kAddName).size(), 2u);
  EXPECT_THAT(session().report().lost_by_cause, IsEmpty());
}

// CUPTI withholds that buffer.
TEST_F(CudaStopTest, ALaunchThatReturnsAfterTheEndIsNotLostSilently) {
  options_.limits.work_in_flight = absl::Milliseconds(50);
  Begin();
  gpu().Launch(kAdd);
  const uint64_t called_ns = RealtimeNs();
  StopAround([&] { (void)ReturnFromLaunch(called_ns); }, [] {});  // the kernel never begins
  EXPECT_EQ(session().Named("Launch vecAdd").size(), 2u);
  EXPECT_THAT(session().report().lost_by_cause, ElementsAre(Pair(LossCause::kGpuUnfinished, 1)));
}

// Nothing tells that they are missing.
TEST_F(CudaStopTest, RecordsThatEachFlushBringsAFewOfAreAwaited) {
  options_.limits.work_in_flight = absl::Seconds(20);
  Begin();
  for (int i = 0; i < 5; ++i) {
    const uint32_t correlation = FakeGpu::NextCorrelation();
    const uint64_t now_ns = RealtimeNs();
    Bytes records = Encode(FakeGpu::Call(cuda::kLaunchKernelCall, correlation, now_ns), 130001);
    const Bytes kernel = Encode(FakeGpu::Kernel(kAdd, correlation, now_ns + 1'000, 1'000), 130001);
    records.insert(records.end(), kernel.begin(), kernel.end());
    gpu().HoldBack(records);
  }
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named(kAddName).size(), 5u);
}

// A program that goes on: its queue never empties, and none of what it adds is of the window. A
// forced flush beside threads that record can damage their records, and has crashed a process.
TEST_F(CudaStopTest, WhatIsLaunchedAfterTheEndIsNotLostAndForcesNothing) {
  for (const uint32_t version : {22, 27, 130001}) {
    SCOPED_TRACE(version);
    RenewCollector(version);
    options_.limits.work_in_flight = absl::Seconds(20);
    Begin();
    const uint64_t begin_ns = RealtimeNs();
    const uint64_t inside = gpu().LaunchPending(kAdd);
    StopWhile([&] {
      for (int i = 0; i < 20; ++i) EXPECT_NE(gpu().LaunchPending(kAdd), 0u);
      Run(inside, begin_ns, 1'000);  // what Stop waits for
    });
    EXPECT_EQ(session().Named(kAddName).size(), 1u);
    EXPECT_THAT(session().report().lost_by_cause, IsEmpty());
    // The next profiler would get what CUPTI still holds. Where kernels stay traced, they are.
    EXPECT_EQ(gpu().Calls("cuptiActivityFlushAll:forced"), version == 27 ? 0u : 1u);
    EXPECT_EQ(gpu().Calls(kForcedWhileTraced), version == 27 ? 1u : 0u);
    EXPECT_FALSE(cuda::BufferPool::Get().HasLent());
    LeaveGpu();
  }
}

// What is under way as its kind is disabled may come without its times: a launch, its kernel, and a
// wait.
TEST_F(CudaStopTest, CallsThatBeganAfterTheEndAndTheirKernelsAreNotLost) {
  for (const uint32_t version : {27, 130001}) {
    SCOPED_TRACE(version);
    RenewCollector(version);
    options_.limits.work_in_flight = absl::Seconds(20);
    Begin();
    gpu().Launch(kAdd);
    gpu().Hang("cuptiActivityGetNumDroppedRecords");
    std::thread program([&] {
      EXPECT_EQ(gpu().AwaitHang(), 1);  // the last flush is done
      const uint32_t correlation = FakeGpu::NextCorrelation();
      for (const uint32_t call : {cuda::kLaunchKernelCall, cuda::kStreamSynchronizeCall}) {
        cuda::Activity under_way = FakeGpu::Call(call, correlation + call, 0);
        under_way.start_ns = under_way.end_ns = 0;
        EXPECT_TRUE(gpu().Deliver(Encode(under_way, version)));
      }
      EXPECT_TRUE(gpu().Deliver(
          Encode(FakeGpu::Kernel(kAdd, correlation + cuda::kLaunchKernelCall, 0, 0), version)));
      gpu().Release();
    });
    session().Stop();
    program.join();
    session().ExpectIdentity();
    EXPECT_EQ(session().Named(kAddName).size(), 1u);
    EXPECT_THAT(session().report().lost_by_cause, IsEmpty());
    EXPECT_EQ(session().report().outside, 3u);
    LeaveGpu();
  }
}

// It may have begun in the window.
TEST_F(CudaStopTest, ACallThatHasNotReturnedIsLostWhileWorkOfTheWindowIsInFlight) {
  Begin();
  EXPECT_NE(gpu().LaunchPending(kAdd), 0u);
  EmitWaiting();
  session().Stop();
  session().ExpectIdentity();
  EXPECT_THAT(session().report().lost_by_cause,
              ElementsAre(Pair(LossCause::kGpuNoTimestamp, 1), Pair(LossCause::kGpuUnfinished, 1)));
}

TEST_F(CudaStopTest, TheCaptureOfAProgramThatNeverStopsLaunchingEnds) {
  Begin();
  std::atomic<bool> ended{false};
  std::atomic<int> completed{0};
  std::thread program([&] {
    std::vector<uint64_t> queue;
    while (!ended) {
      queue.push_back(gpu().LaunchPending(kAdd));
      if (queue.size() < 50) continue;
      const uint64_t oldest = queue.front();
      queue.erase(queue.begin());
      const uint64_t now_ns = RealtimeNs();
      (void)gpu().SetTimes(oldest, now_ns, now_ns + 1);
      ++completed;
      std::this_thread::yield();
    }
  });
  while (completed < 500) (void)session().Drain();
  session().Stop();
  ended = true;
  program.join();
  session().ExpectIdentity();
  EXPECT_GE(session().Named(kAddName).size(), 450u);
  EXPECT_EQ(gpu().IsEnabled(kKindKernel), 0);
}

// To abandon it would lose all records that it delivers.
TEST_F(CudaStopTest, AFlushThatTakesLongerThanTheWaitForWorkIsNoHang) {
  options_.limits.work_in_flight = absl::Milliseconds(1);
  Begin();
  gpu().Launch(kAdd);
  gpu().Hang("cuptiActivityFlushAll");
  std::thread slow([] {
    EXPECT_EQ(gpu().AwaitHang(), 1);
    // Longer than any time limit of the wait; a later end is no failure.
    absl::SleepFor(absl::Milliseconds(150));
    gpu().Release();
  });
  Finish();
  slow.join();
  session().ExpectIdentity();
  EXPECT_EQ(session().report().state, CollectorState::kOn) << session().report().reason;
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
}

TEST_F(CudaStopTest, AnIdleProgramIsNotWaitedFor) {
  options_.limits.work_in_flight = absl::Seconds(100);
  Begin();
  gpu().Launch(kAdd);
  void* const empty = gpu().Take();  // CUPTI holds it, and has written nothing
  ASSERT_NE(empty, nullptr);
  Finish();
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
  gpu().Return(empty, nullptr, 0);
}

// A process that leaves waits for less than Stop does for work in flight.
TEST_F(CudaStopTest, WhatHasEndedIsInTheStoreBeforeTheWait) {
  options_.limits.work_in_flight = absl::Seconds(20);
  Begin();
  const uint64_t begin_ns = RealtimeNs();
  gpu().Launch(kAdd, 1'000);
  // On another thread, and so in another buffer.
  uint64_t running = 0;
  std::thread([&] { running = gpu().LaunchPending(kAdd); }).join();
  size_t segments = 0;
  const auto count = [&] {
    size_t found = 0;
    for (const xspace::ItemView& item : session().store().Items()) {
      found += item.kind == xspace::ItemKind::kEvents ? 1 : 0;
    }
    return found;
  };
  EXPECT_EQ(count(), 0u);
  StopWhile([&] {
    const absl::Time deadline = absl::Now() + absl::Seconds(10);
    while (segments == 0 && absl::Now() < deadline) segments = count();
    Run(running, begin_ns, 1'000);
  });
  EXPECT_GT(segments, 0u);
  EXPECT_EQ(session().Named(kAddName).size(), 2u);
}

// Their launches are in the trace: a warning says why they have no kernel.
TEST_F(CudaStopTest, LaunchesWhoseKernelsBeganAfterTheEndAreCounted) {
  options_.limits.work_in_flight = absl::Seconds(20);
  Begin();
  gpu().Launch(kAdd, 1'000);
  std::vector<uint64_t> late;
  for (int i = 0; i < 3; ++i) late.push_back(gpu().LaunchPending(kAdd));
  StopWhile([&] {
    for (const uint64_t work : late) Run(work, RealtimeNs() + 1'000'000, 1'000);
  });
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
  EXPECT_THAT(session().report().lost_by_cause, IsEmpty());
  EXPECT_EQ(session().report().outside, 3u);
  uint64_t reported = 0;
  for (const auto& plane : session().space().planes()) {
    for (const auto& stat : plane.stats()) {
      if (plane.stat_metadata().at(stat.metadata_id()).name() ==
          "launched_but_started_after_the_window") {
        reported += stat.uint64_value();
      }
    }
  }
  EXPECT_EQ(reported, 3u);
}

// A busy machine may have left all buffers full. A launch that is written before its kernel has
// been read shows that it was not held.
TEST_F(CudaStopTest, WhatIsReadAtTheEndIsHeldWithinTheLimit) {
  options_.limits.held_bytes = 0;
  Begin();
  const uint32_t correlation = FakeGpu::NextCorrelation();
  const uint64_t called_ns = RealtimeNs();
  const cuda::Activity kernel = FakeGpu::Kernel(kAdd, correlation, called_ns + 5'000, 1'000);
  EXPECT_TRUE(gpu().Deliver(
      Encode(FakeGpu::Call(cuda::kLaunchKernelCall, correlation, called_ns), 130001)));
  EXPECT_TRUE(gpu().Deliver(Encode(kernel, 130001)));
  const uint64_t old = session().Now() + 200'000'000;
  while (session().Now() < old) std::this_thread::yield();  // recent ones are always held
  session().Stop();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named("cudaLaunchKernel").size(), 1u);
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
  EXPECT_THAT(session().report().lost_by_cause, IsEmpty());
}

TEST_F(CudaStopTest, ACaptureThatNeverStartsGivesItsMemoryBack) {
  constexpr size_t kRecorded = 40;  // buffers
  options_.buffer_bytes = 64 * cuda::BufferPool::kBufferBytes;
  ASSERT_TRUE(session().Arm().ok());
  const cuda::Bytes kernel = Encode(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000), 130001);
  cuda::Bytes records;
  while (records.size() + kernel.size() <= cuda::BufferPool::kBufferBytes) {
    records.insert(records.end(), kernel.begin(), kernel.end());
  }
  void* const held = gpu().Take();
  ASSERT_NE(held, nullptr);
  for (size_t i = 0; i < kRecorded; ++i) EXPECT_TRUE(gpu().Deliver(records));
  EXPECT_GE(ResidentBytesAround(held), kRecorded * cuda::BufferPool::kBufferBytes);
  gpu().Return(held, records.data(), records.size());
  gpu().Launch(kAdd);  // comes back when Stop forces it
  session().Stop();
  EXPECT_FALSE(cuda::BufferPool::Get().TakeFull().has_value());
  EXPECT_LT(ResidentBytesAround(held), 4 * cuda::BufferPool::kBufferBytes);
}

// A forced flush, with work in flight, also brings what CUPTI had reserved and not written.
TEST_F(CudaStopTest, ReservedRecordsAtTheEndOfABufferAreItsEnd) {
  Begin();
  const cuda::Bytes kernel = Encode(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000), 130001);
  EXPECT_TRUE(gpu().Deliver(cuda::Join({kernel, cuda::Bytes(2 * kernel.size(), 0)})));
  EXPECT_TRUE(gpu().Deliver(cuda::Bytes(kernel.size(), 0)));
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
  EXPECT_THAT(session().report().lost_by_cause, IsEmpty());
  EXPECT_THAT(session().report().warnings, IsEmpty());
}

// But not where something follows.
TEST_F(CudaStopTest, WhatFollowsReservedRecordsIsNotLostSilently) {
  Begin();
  const cuda::Bytes kernel = Encode(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000), 130001);
  EXPECT_TRUE(gpu().Deliver(cuda::Join({kernel, cuda::Bytes(kernel.size(), 0), kernel})));
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
  EXPECT_THAT(session().report().lost_by_cause, ElementsAre(Pair(LossCause::kInvalid, 1)));
}

}  // namespace
}  // namespace jobscope
