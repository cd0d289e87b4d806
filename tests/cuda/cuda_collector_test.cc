// SPDX-License-Identifier: Apache-2.0
//
// The collector on the fake libcupti: what becomes of GPU work, and of everything that can go wrong
// with it.
#include "collectors/cuda/cuda_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectors/cuda/buffer_pool.h"
#include "collectors/cuda/event_writer.h"
#include "common/trace_planes.h"
#include "tests/cuda/collector_fixture.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

using cuda::Activity;
using cuda::ActivityType;
using cuda::Bytes;
using cuda::FakeGpu;
using cuda::RealtimeNs;

TEST_F(CudaCollectorTest, AKernelStandsOnItsStreamAndItsLaunchOnItsThread) {
  Begin();
  const uint32_t correlation = gpu().Launch(kAdd, 20'000);
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().report().state, "on") << session().report().reason;
  EXPECT_THAT(session().report().lost_by_cause, IsEmpty());
  EXPECT_THAT(session().report().warnings, IsEmpty());

  const ReadEvent kernel = session().One(kAddName);
  EXPECT_EQ(kernel.plane, "/device:GPU:0");
  EXPECT_EQ(kernel.line, "Stream #7(Compute)");
  EXPECT_EQ(kernel.line_id, 7);
  EXPECT_NEAR(static_cast<double>(kernel.duration_ps), 20e6, 1e4);
  EXPECT_EQ(kernel.ints.at("correlation_id"), correlation);
  EXPECT_EQ(kernel.texts.at("kernel_details"),
            "regs:32 static_shared:0 dynamic_shared:4096 grid:128,1,1 block:256,1,1 occ_pct:100");
  EXPECT_EQ(kernel.doubles.at("theoretical_occupancy_pct"), 100);

  const ReadEvent launch = session().One("Launch vecAdd");
  EXPECT_EQ(launch.plane, "/host:CPU");
  EXPECT_EQ(launch.line_id, cuda::ThreadId());
  EXPECT_THAT(launch.line, HasSubstr("/" + std::to_string(cuda::ThreadId())));
  EXPECT_EQ(launch.ints.at("correlation_id"), correlation);
  EXPECT_EQ(launch.ints.at("device_id"), 0);
  EXPECT_EQ(launch.texts.at("call"), "cudaLaunchKernel");
  EXPECT_LT(launch.start_ps, kernel.start_ps);
}

TEST_F(CudaCollectorTest, ThePlaneTellsTheGpusCapabilities) {
  Begin();
  gpu().Launch(kAdd);
  Finish();
  std::map<std::string, std::string> texts;
  std::map<std::string, int64_t> ints;
  for (const auto& plane : session().space().planes()) {
    if (plane.name() != "/device:GPU:0") continue;
    EXPECT_EQ(plane.id(), 0);
    for (const auto& stat : plane.stats()) {
      const std::string& name = plane.stat_metadata().at(stat.metadata_id()).name();
      texts[name] = stat.str_value();
      ints[name] = stat.int64_value();
    }
  }
  EXPECT_EQ(texts["device_vendor"], "Nvidia");
  EXPECT_EQ(texts["gpu_device_name"], "Fake H100");
  EXPECT_EQ(ints["compute_cap_major"], 9);
  EXPECT_EQ(ints["core_count"], 132);
  EXPECT_EQ(ints["memory_size"], int64_t{80} << 30);
  EXPECT_EQ(ints["memory_bandwidth"], int64_t{2000} * 2'619'000 * 5120 / 8);
}

TEST_F(CudaCollectorTest, CopiesSetsWaitsOverheadAndMemory) {
  Begin();
  const uint64_t now_ns = RealtimeNs();
  const uint32_t copy_id = FakeGpu::NextCorrelation();
  gpu().Emit(FakeGpu::Call(cuda::kCopyAsyncCall, copy_id, now_ns));
  Activity copy;
  copy.type = ActivityType::kCopy;
  copy.sub_kind = 1;
  copy.source_memory = 2;
  copy.destination_memory = 3;
  copy.is_async = true;
  copy.bytes = 4096;
  copy.start_ns = now_ns + 5'000;
  copy.end_ns = now_ns + 9'000;
  copy.stream = 13;
  copy.correlation = copy_id;
  gpu().Emit(copy);
  Activity peer = copy;
  peer.sub_kind = 10;
  peer.peer_destination = 1;
  peer.start_ns += 10'000;
  peer.end_ns += 10'000;
  gpu().Emit(peer);
  Activity set = copy;
  set.type = ActivityType::kSet;
  set.start_ns += 20'000;
  set.end_ns += 20'000;
  gpu().Emit(set);
  Activity sync;
  sync.type = ActivityType::kSync;
  sync.sub_kind = 3;
  sync.stream = 13;
  sync.start_ns = now_ns;
  sync.end_ns = now_ns + 30'000;
  gpu().Emit(sync);
  Activity overhead = sync;
  overhead.type = ActivityType::kOverhead;
  overhead.call = 5u << 16;
  overhead.thread = cuda::ThreadId();
  gpu().Emit(overhead);
  Activity memory;
  memory.type = ActivityType::kMemory;
  memory.sub_kind = 1;
  memory.source_memory = 3;
  memory.start_ns = now_ns + 100;
  memory.address = 0x7000;
  memory.bytes = 1 << 20;
  gpu().Emit(memory);
  memory.sub_kind = 2;
  memory.start_ns = now_ns + 200;
  memory.bytes = 0;
  gpu().Emit(memory);
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().report().events, 8u);

  const ReadEvent in = session().One("MemcpyHtoD");
  EXPECT_EQ(in.plane, "/device:GPU:0");
  EXPECT_THAT(in.texts.at("memcpy_details"), StartsWith("num_bytes:4096\n"));
  EXPECT_THAT(session().One("MemcpyDtoD").texts.at("memcpy_details"), HasSubstr("to_device:1"));
  EXPECT_EQ(session().One("Memset").line, "Stream #13(MemcpyHtoD,MemcpyDtoD,Memset)");
  // XProf would take both for work of the GPU.
  EXPECT_EQ(session().One("wait for a stream").plane, "/device:CUSTOM:CUDA");
  EXPECT_EQ(session().One("lazy function loading").plane, "/device:CUSTOM:CUDA");
  // A copy's call keeps its name, and is tied to the copy.
  EXPECT_EQ(session().One("cudaMemcpyAsync").ints.at("correlation_id"), copy_id);

  const ReadEvent allocation = session().One("MemoryAllocation");
  EXPECT_EQ(allocation.plane, "/host:CPU");
  EXPECT_EQ(allocation.texts.at("allocator_name"), "GPU:0 device");
  EXPECT_EQ(allocation.ints.at("bytes_allocated"), 1 << 20);
  EXPECT_EQ(allocation.ints.at("bytes_available"), (int64_t{80} << 30) - (1 << 20));
  const ReadEvent release = session().One("MemoryDeallocation");
  EXPECT_EQ(release.ints.at("bytes_allocated"), 0);
  EXPECT_EQ(release.ints.at("allocation_bytes"), 1 << 20);
  EXPECT_EQ(release.ints.at("peak_bytes_in_use"), 1 << 20);
}

TEST_F(CudaCollectorTest, ADriverCallWithinARuntimeCallIsNotASecondLaunch) {
  Begin();
  const uint32_t correlation = gpu().Launch(kAdd);
  Activity driver = FakeGpu::Call(cuda::kDriverLaunchCall, correlation, RealtimeNs());
  driver.is_driver = true;
  gpu().Emit(driver);
  const uint32_t alone = FakeGpu::NextCorrelation();
  driver.correlation = alone;
  gpu().Emit(driver);
  gpu().Emit(FakeGpu::Kernel("triton_kernel", alone, RealtimeNs() + 5'000, 1'000));
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named("Launch vecAdd").size(), 1u);
  EXPECT_EQ(session().Named("cuLaunchKernel").size(), 1u);
  EXPECT_EQ(session().One("Launch triton_kernel").ints.at("correlation_id"), alone);
}

TEST_F(CudaCollectorTest, EveryVersionIsRead) {
  for (const uint32_t version : {13u, 15u, 18u, 22u, 28u, 130001u}) {
    SCOPED_TRACE(version);
    driver_.reset();
    collector_.reset();
    options_.cupti_library = UseVersion(version);
    Begin();
    for (int i = 0; i < 50; ++i) gpu().Launch(kAdd, 1'000);
    Finish();
    session().ExpectIdentity();
    EXPECT_EQ(session().Named(kAddName).size(), 50u);
    EXPECT_EQ(session().Named("Launch vecAdd").size(), 50u);
    EXPECT_EQ(session().report().state, "on");
  }
}

TEST_F(CudaCollectorTest, AnUnknownFutureVersionIsReadAndSaid) {
  options_.cupti_library = UseVersion(140100);
  Begin();
  gpu().Launch(kAdd);
  Finish();
  EXPECT_EQ(session().report().state, "degraded");
  EXPECT_THAT(session().report().reason, HasSubstr("14.1 is newer"));
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
}

TEST_F(CudaCollectorTest, RecordsOfManyThreadsInAnyOrderBecomeSortedLines) {
  Begin();
  constexpr int kThreads = 4;
  constexpr int kEach = 2'000;
  const uint64_t base_ns = RealtimeNs();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      // Kernels first, backwards, on streams that all threads use; calls afterwards.
      std::vector<uint32_t> ids;
      for (int i = 0; i < kEach; ++i) ids.push_back(FakeGpu::NextCorrelation());
      for (int i = kEach - 1; i >= 0; --i) {
        const auto slot = static_cast<uint64_t>(i) * kThreads + static_cast<uint64_t>(t);
        gpu().Emit(FakeGpu::Kernel(kAdd, ids[static_cast<size_t>(i)], base_ns + slot * 1'000, 900,
                                   7 + static_cast<uint32_t>(i % 2)));
      }
      for (int i = 0; i < kEach; ++i) {
        gpu().Emit(FakeGpu::Call(cuda::kLaunchKernelCall, ids[static_cast<size_t>(i)],
                                 base_ns + static_cast<uint64_t>(i) * 4'000));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Finish();
  session().ExpectIdentity();
  // The reader of the trace fails where a line is not sorted.
  EXPECT_EQ(session().Named(kAddName).size(), size_t{kThreads} * kEach);
  EXPECT_EQ(session().Named("Launch vecAdd").size(), size_t{kThreads} * kEach);
  EXPECT_EQ(LineNames("/device:GPU:0").size(), 2u);
}

TEST_F(CudaCollectorTest, NodesOfAGraphThatOverlapGetLanes) {
  Begin();
  const uint64_t now_ns = RealtimeNs();
  const uint32_t correlation = FakeGpu::NextCorrelation();
  gpu().Emit(FakeGpu::Call(cuda::kGraphLaunchCall, correlation, now_ns));
  for (uint64_t i = 0; i < 3; ++i) {
    Activity node = FakeGpu::Kernel(kAdd, correlation, now_ns + 1'000 * i, 10'000);
    node.graph = 3;
    node.graph_node = 100 + i;
    gpu().Emit(node);
  }
  gpu().Emit(FakeGpu::Kernel(kAdd, correlation, now_ns + 50'000, 10'000));
  Finish();
  session().ExpectIdentity();
  EXPECT_THAT(LineNames("/device:GPU:0"),
              ::testing::UnorderedElementsAre("Stream #7(Compute)", "Stream #7 lane 2(Compute)",
                                              "Stream #7 lane 3(Compute)"));
  EXPECT_EQ(session().Named(kAddName)[0].ints.at("cuda_graph_id"), 3);
}

TEST_F(CudaCollectorTest, WhatLiesOutsideOfTheWindowIsCountedAndWhatCrossesItsEdgesIsClipped) {
  ASSERT_TRUE(session().Arm().ok());
  const uint64_t before_ns = RealtimeNs();
  gpu().Emit(FakeGpu::Kernel("before", 0, before_ns - 10'000'000, 1'000));
  gpu().Emit(FakeGpu::Kernel("into", 0, before_ns - 5'000'000, 1'000'000'000));
  ASSERT_TRUE(session().Start().ok());
  const uint64_t end = session().Now() + 50'000'000;
  gpu().Emit(FakeGpu::Kernel("behind", 0, RealtimeNs() + 900'000'000, 1'000));
  session().StopAt(end);
  session().ExpectIdentity();
  EXPECT_EQ(session().report().outside, 2u);
  const ReadEvent clipped = session().One("into");
  EXPECT_EQ(clipped.start_ps, 0);
  EXPECT_EQ(clipped.end_ps(), session().map().ToPs(end));
  EXPECT_EQ(clipped.ints.at("truncated"), 1);
  EXPECT_LT(clipped.ints.at("true_start_ns"), 0);
  EXPECT_GT(clipped.ints.at("true_end_ns"), 0);
}

TEST_F(CudaCollectorTest, LaunchesThatRunNothingAreNoLosses) {
  const auto call = [](uint32_t which, uint32_t result = 0) {
    Activity api = FakeGpu::Call(which, FakeGpu::NextCorrelation(), RealtimeNs());
    api.result = result;
    gpu().Emit(api);
  };
  Begin();
  gpu().Launch(kAdd);
  // A graph is recorded: by this thread, while another one launches into it.
  call(cuda::kStreamBeginCaptureCall);
  call(cuda::kLaunchKernelCall);
  std::thread([&] { call(cuda::kLaunchKernelCall); }).join();
  call(cuda::kStreamEndCaptureCall);
  // It failed.
  call(cuda::kLaunchKernelCall, 98);
  // After the end of the recording a launch is one.
  call(cuda::kLaunchKernelCall);
  Finish();
  session().ExpectIdentity();
  EXPECT_THAT(session().report().lost_by_cause, ElementsAre(Pair("gpu_unfinished", 1)));
}

TEST_F(CudaCollectorTest, EveryLossIsCountedByItsCause) {
  Begin();
  gpu().Launch(kAdd);
  Activity zero = FakeGpu::Kernel(kAdd, 0, 0, 0);
  zero.end_ns = 0;
  gpu().Emit(zero);
  Activity backwards = FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 0);
  backwards.end_ns -= 5'000;
  gpu().Emit(backwards);
  gpu().AddDropped(7);
  // Launched, and never seen again: more of them than the losses that are known explain.
  for (int i = 0; i < 10; ++i) {
    gpu().Emit(FakeGpu::Call(cuda::kLaunchKernelCall, FakeGpu::NextCorrelation(), RealtimeNs()));
  }
  Finish();
  session().ExpectIdentity();
  const auto& lost = session().report().lost_by_cause;
  EXPECT_THAT(lost, Contains(Pair("gpu_no_timestamp", 1)));
  EXPECT_THAT(lost, Contains(Pair("invalid", 1)));
  EXPECT_THAT(lost, Contains(Pair("cupti_dropped", 7)));
  EXPECT_THAT(lost, Contains(Pair("gpu_unfinished", 2)));
}

TEST_F(CudaCollectorTest, LaunchedIsInTheTraceOrLost) {
  Begin();
  constexpr int kLaunches = 5'000;
  for (int i = 0; i < kLaunches; ++i) {
    const uint32_t correlation = FakeGpu::NextCorrelation();
    const uint64_t now_ns = RealtimeNs();
    gpu().Emit(FakeGpu::Call(cuda::kLaunchKernelCall, correlation, now_ns));
    Activity kernel = FakeGpu::Kernel(kAdd, correlation, now_ns + 100, 100);
    if (i % 10 == 3) kernel.start_ns = kernel.end_ns = 0;
    if (i % 10 == 7) continue;  // dropped by CUPTI
    gpu().Emit(kernel);
  }
  gpu().AddDropped(kLaunches / 10);
  Finish();
  session().ExpectIdentity();
  uint64_t lost = 0;
  for (const auto& [cause, count] : session().report().lost_by_cause) lost += count;
  EXPECT_EQ(session().Named(kAddName).size() + lost, size_t{kLaunches});
}

TEST_F(CudaCollectorTest, WorkThatHasNotEndedIsInTheTraceUpToTheEnd) {
  Begin();
  const uint32_t correlation = FakeGpu::NextCorrelation();
  gpu().Emit(FakeGpu::Call(cuda::kLaunchKernelCall, correlation, RealtimeNs()));
  Activity running = FakeGpu::Kernel(kAdd, correlation, RealtimeNs(), 0);
  running.end_ns = 0;  // as a forced flush gives it
  gpu().Emit(running);
  const uint64_t end = session().Now() + 10'000'000;
  session().StopAt(end);
  session().ExpectIdentity();
  const ReadEvent kernel = session().One(kAddName);
  EXPECT_EQ(kernel.end_ps(), session().map().ToPs(end));
  EXPECT_EQ(kernel.ints.at("truncated"), 1);
}

TEST_F(CudaCollectorTest, TruncatedUnknownAndGarbledBuffersCostOnlyThemselves) {
  Begin();
  const uint64_t now_ns = RealtimeNs();
  const Bytes good = Encode(FakeGpu::Kernel(kAdd, 0, now_ns, 1'000), 130001);
  Bytes cut = cuda::Join({good, good});
  cut.resize(cut.size() - 8);
  EXPECT_TRUE(gpu().Deliver(cut));  // one whole record
  Bytes marker(56, 0);              // a kind that CUPTI knows and we do not use
  marker[0] = 12;
  EXPECT_TRUE(gpu().Deliver(cuda::Join({good, marker, good})));
  Bytes unknown(64, 0xee);  // a kind that nobody knows: the rest of the buffer is gone
  EXPECT_TRUE(gpu().Deliver(cuda::Join({good, unknown, good})));
  EXPECT_TRUE(gpu().Deliver({}));
  EXPECT_TRUE(gpu().Deliver({1, 2}));
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named(kAddName).size(), 4u);
  EXPECT_EQ(session().report().lost_by_cause.at("invalid"), 1u);
  EXPECT_THAT(session().report().warnings,
              AllOf(Contains(HasSubstr("kind 12")), Contains(HasSubstr("1 buffers could not be"))));
}

TEST_F(CudaCollectorTest, GiantNamesAreCut) {
  Begin();
  const std::string giant(300'000, 'k');
  gpu().Launch(giant.c_str());
  Finish();
  session().ExpectIdentity();
  bool found = false;
  for (const ReadEvent& event : session().events_read()) {
    EXPECT_LE(event.name.size(), 5'000u);
    found = found || event.plane == "/device:GPU:0";
  }
  EXPECT_TRUE(found);
}

TEST_F(CudaCollectorTest, OverTheCapOfBuffersRecordsAreLostAndCounted) {
  Begin();
  std::vector<void*> taken;
  while (void* const buffer = gpu().Take()) taken.push_back(buffer);
  // The pool of the process is as large as its first user made it.
  EXPECT_GE(taken.size(), 4u);
  EXPECT_FALSE(gpu().Emit(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000)));
  for (void* const buffer : taken) gpu().Return(buffer, nullptr, 0);
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().report().lost_by_cause.at("cupti_dropped"), 1u);
  EXPECT_THAT(session().report().warnings, Contains(HasSubstr("JOBSCOPE_CUDA_BUFFER_MB")));
}

TEST_F(CudaCollectorTest, BeforeVersion12_9RecordsOverTheCapAreCountedAsScrap) {
  options_.cupti_library = UseVersion(22);
  Begin();
  std::vector<void*> taken;
  const size_t cap = options_.buffer_bytes / cuda::BufferPool::kBufferBytes;
  for (size_t i = 0; i < cap; ++i) taken.push_back(gpu().Take());
  const Bytes kernel = Encode(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000), 22);
  EXPECT_TRUE(gpu().Deliver(cuda::Join({kernel, kernel, kernel})));
  for (void* const buffer : taken) gpu().Return(buffer, nullptr, 0);
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().report().lost_by_cause.at("gpu_pool"), 3u);
  EXPECT_THAT(session().Named(kAddName), IsEmpty());
}

TEST_F(CudaCollectorTest, BuffersThatComeBackAfterTheEndAreSaidInTheNextCapture) {
  Begin();
  void* const late = gpu().Take();
  ASSERT_NE(late, nullptr);
  Finish();
  const Bytes kernel = Encode(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000), 130001);
  gpu().Return(late, kernel.data(), kernel.size());  // into memory that is still there
  driver_.reset();
  Begin();
  gpu().Launch(kAdd);
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
}

TEST_F(CudaCollectorTest, CapturesFollowEachOther) {
  for (int i = 0; i < 20; ++i) {
    driver_.reset();
    Begin();
    EXPECT_EQ(gpu().IsSubscribed(), 1);
    EXPECT_EQ(gpu().IsEnabled(10), 1);
    for (int k = 0; k < 100; ++k) gpu().Launch(kAdd, 1'000);
    Finish();
    session().ExpectIdentity();
    EXPECT_EQ(session().Named(kAddName).size(), 100u);
    EXPECT_EQ(gpu().IsSubscribed(), 0);
    EXPECT_EQ(gpu().IsEnabled(10), 0);
  }
  EXPECT_EQ(gpu().Inits(), 0);
}

TEST_F(CudaCollectorTest, NothingOfCuptiIsTouchedWhileNoCaptureRuns) {
  Begin();
  gpu().Launch(kAdd);
  Finish();
  const uint64_t flushes = gpu().Calls("cuptiActivityFlushAll");
  const uint64_t enables = gpu().Calls("cuptiActivityEnable");
  EXPECT_EQ(collector().Describe().state, "on");
  EXPECT_FALSE(gpu().Emit(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000)));
  EXPECT_EQ(gpu().Calls("cuptiActivityFlushAll"), flushes);
  EXPECT_EQ(gpu().Calls("cuptiActivityEnable"), enables);
}

TEST_F(CudaCollectorTest, ASessionThatEndsBeforeItsStartLeavesNothingBehind) {
  ASSERT_TRUE(session().Arm().ok());
  Finish();
  EXPECT_EQ(session().report().attempted, 0u);
  EXPECT_EQ(gpu().IsSubscribed(), 0);
}

TEST_F(CudaCollectorTest, WorkIsWaitedForAndComesWithAFlush) {
  options_.limits.work_in_flight = absl::Seconds(10);
  Begin();
  const uint32_t correlation = FakeGpu::NextCorrelation();
  gpu().Emit(FakeGpu::Call(cuda::kLaunchKernelCall, correlation, RealtimeNs()));
  const Activity kernel = FakeGpu::Kernel(kAdd, correlation, RealtimeNs() + 1'000, 1'000);
  std::thread device([&] {
    // Once Stop has asked, and found nothing.
    while (gpu().Calls("cuptiActivityFlushAll") < 3) std::this_thread::yield();
    gpu().Emit(kernel);
  });
  session().StopAt(session().Now() + 10'000'000);
  device.join();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
  EXPECT_THAT(session().report().lost_by_cause, IsEmpty());
}

// Steps.

TEST_F(CudaCollectorTest, LaunchesAndLonelyKernelsAreTiedToTheirStep) {
  Begin();
  const uint64_t begin = session().Now();
  gpu().Launch(kAdd, 1'000);
  gpu().Emit(FakeGpu::Kernel("without_a_call", 0, RealtimeNs(), 1'000));
  const uint64_t end = session().Now() + 1'000'000;
  steps_ = {{5, begin, end}};
  session().StopAt(end + 1'000'000);
  session().ExpectIdentity();
  const ReadEvent launch = session().One("Launch vecAdd");
  EXPECT_EQ(launch.ints.at("_ct"), kStepContextType);
  EXPECT_EQ(launch.ints.at("_c"), static_cast<int64_t>(begin));
  EXPECT_THAT(session().One(kAddName).ints, Not(Contains(Key("_ct"))));
  EXPECT_EQ(session().One("without_a_call").ints.at("_c"), static_cast<int64_t>(begin));
  EXPECT_EQ(session().One("without_a_call").plane, "/device:GPU:0");
}

TEST_F(CudaCollectorTest, AGpuWithoutAnyStepDoesNotStandWhereItWouldHideTheHostsSteps) {
  Begin();
  const uint64_t begin = session().Now();
  steps_ = {{5, begin, begin + 1}};  // over before anything was launched
  gpu().Launch(kAdd, 1'000);
  session().StopAt(session().Now() + 1'000'000);
  session().ExpectIdentity();
  EXPECT_EQ(session().One(kAddName).plane, "/device:CUSTOM:GPU:0");
  EXPECT_THAT(PlaneNames(), Not(Contains("/device:GPU:0")));
  EXPECT_THAT(session().One("Launch vecAdd").ints, Not(Contains(Key("device_id"))));
}

TEST_F(CudaCollectorTest, AStepThatIsCutAtTheEdgeTiesNothing) {
  steps_ = {{1, session().Now() - 1'000'000, 0}};
  Begin();
  gpu().Launch(kAdd, 1'000);
  Finish();
  EXPECT_THAT(session().One("Launch vecAdd").ints, Not(Contains(Key("_ct"))));
  EXPECT_EQ(session().One(kAddName).plane, "/device:GPU:0");
}

TEST_F(CudaCollectorTest, AKernelBeforeItsLaunchIsSaid) {
  Begin();
  const uint32_t correlation = FakeGpu::NextCorrelation();
  const uint64_t now_ns = RealtimeNs();
  gpu().Emit(FakeGpu::Call(cuda::kLaunchKernelCall, correlation, now_ns + 50'000));
  gpu().Emit(FakeGpu::Kernel(kAdd, correlation, now_ns, 1'000));
  session().StopAt(session().Now() + 10'000'000);
  EXPECT_THAT(session().report().warnings,
              Contains(HasSubstr("1 of 1 kernels start before the call")));
}

TEST_F(CudaCollectorTest, TheOrderOfLaunchesAndKernelsIsToldInEachTrace) {
  Begin();
  for (int i = 0; i < 20; ++i) gpu().Launch(kAdd);
  gpu().Launch(kAdd, 20'000, 7, 1);
  gpu().Emit(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000));  // without a call: not checked
  const uint32_t correlation = FakeGpu::NextCorrelation();
  const uint64_t now_ns = RealtimeNs();
  gpu().Emit(FakeGpu::Call(cuda::kLaunchKernelCall, correlation, now_ns + 50'000));
  gpu().Emit(FakeGpu::Kernel(kAdd, correlation, now_ns, 1'000));
  Finish();
  std::map<std::string, std::pair<uint64_t, uint64_t>> order;
  for (const auto& plane : session().space().planes()) {
    for (const auto& stat : plane.stats()) {
      const std::string& name = plane.stat_metadata().at(stat.metadata_id()).name();
      if (name == "launches_checked") order[plane.name()].first = stat.uint64_value();
      if (name == "started_before_launch") order[plane.name()].second = stat.uint64_value();
    }
  }
  EXPECT_EQ(order.at("/device:GPU:0"), std::make_pair(uint64_t{21}, uint64_t{1}));
  EXPECT_EQ(order.at("/device:GPU:1"), std::make_pair(uint64_t{1}, uint64_t{0}));
}

TEST_F(CudaCollectorTest, AFullStoreIsALossLikeOthers) {
  driver_ = std::make_unique<SessionDriver>(&collector(), kMonotonic, 1 << 20);
  Begin();
  constexpr int kLaunches = 40'000;
  for (int i = 0; i < kLaunches; ++i) gpu().Launch(kAdd, 100);
  Finish();
  session().ExpectIdentity();
  EXPECT_GT(session().report().lost_by_cause.at("store_full"), 0u);
  EXPECT_EQ(session().report().attempted, 2u * kLaunches);
}

}  // namespace
}  // namespace jobscope
