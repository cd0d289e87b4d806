// SPDX-License-Identifier: Apache-2.0
//
// The collector on the fake libcupti: the events of GPU work.
#include "collectors/cuda/cuda_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/collectors/cuda/collector_fixture.h"

namespace jobscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using cuda::Activity;
using cuda::ActivityType;
using cuda::FakeGpu;
using cuda::RealtimeNs;

TEST_F(CudaCollectorTest, AKernelStandsOnItsStreamAndItsLaunchOnItsThread) {
  Begin();
  const uint32_t correlation = gpu().Launch(kAdd, 20'000);
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().report().state, CollectorState::kOn) << session().report().reason;
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

// CUPTI has one subscriber: where a framework's tracer is it, ours does not even load the library.
TEST_F(CudaCollectorTest, WhereAnotherTracesTheGpuItIsOff) {
  options_.other_tracer = [](const ArmRequest&) { return "JAX traces its GPUs itself"; };
  Begin();
  Finish();
  EXPECT_EQ(session().report().state, CollectorState::kOff);
  EXPECT_EQ(session().report().reason, "JAX traces its GPUs itself");
  EXPECT_EQ(gpu().Calls("cuptiSubscribe"), 0u);
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

// CUPTI reports pinned memory of the host like memory of the GPU, which it is not.
TEST_F(CudaCollectorTest, KindsOfMemoryAreNotAddedUp) {
  Begin();
  Activity memory;
  memory.type = ActivityType::kMemory;
  memory.sub_kind = 1;
  memory.source_memory = 2;  // pinned
  memory.start_ns = RealtimeNs();
  memory.address = 0x7000;
  memory.bytes = 1 << 20;
  gpu().Emit(memory);
  memory.source_memory = 3;  // the GPU's
  memory.start_ns += 100;
  memory.address = 0x8000;
  memory.bytes = 1 << 10;
  gpu().Emit(memory);
  // CUPTI need not repeat kind and size.
  memory.sub_kind = 2;
  memory.source_memory = 0;
  memory.start_ns += 100;
  memory.address = 0x7000;
  memory.bytes = 0;
  gpu().Emit(memory);
  Finish();
  session().ExpectIdentity();
  const std::vector<ReadEvent> allocations = session().Named("MemoryAllocation");
  ASSERT_EQ(allocations.size(), 2u);
  EXPECT_EQ(allocations[0].texts.at("allocator_name"), "GPU:0 pinned");
  EXPECT_EQ(allocations[0].ints.at("bytes_allocated"), 1 << 20);
  EXPECT_EQ(allocations[0].ints.at("bytes_available"), 0);  // of the host: not known here
  EXPECT_EQ(allocations[1].texts.at("allocator_name"), "GPU:0 device");
  EXPECT_EQ(allocations[1].ints.at("bytes_allocated"), 1 << 10);
  EXPECT_EQ(allocations[1].ints.at("bytes_available"), (int64_t{80} << 30) - (1 << 10));
  const ReadEvent release = session().One("MemoryDeallocation");
  EXPECT_EQ(release.texts.at("allocator_name"), "GPU:0 pinned");
  EXPECT_EQ(release.ints.at("bytes_allocated"), 0);
  EXPECT_EQ(release.ints.at("peak_bytes_in_use"), 1 << 20);
}

// Only so many different texts are kept as names, but those as often as they come.
TEST_F(CudaCollectorTest, AKernelsDetailsAreOneText) {
  Begin();
  constexpr int kKernels = 5'000;
  for (int i = 0; i < kKernels; ++i) gpu().Launch(kAdd, 100);
  Finish();
  int references = 0;
  for (const auto& plane : session().space().planes()) {
    for (const auto& line : plane.lines()) {
      for (const auto& event : line.events()) {
        for (const auto& stat : event.stats()) {
          const std::string& name = plane.stat_metadata().at(stat.metadata_id()).name();
          if (name == "kernel_details" && stat.ref_value() != 0) ++references;
        }
      }
    }
  }
  EXPECT_EQ(references, kKernels);
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
    RenewCollector(version);
    Begin();
    for (int i = 0; i < 50; ++i) gpu().Launch(kAdd, 1'000);
    Finish();
    session().ExpectIdentity();
    EXPECT_EQ(session().Named(kAddName).size(), 50u);
    EXPECT_EQ(session().Named("Launch vecAdd").size(), 50u);
    EXPECT_EQ(session().report().state, CollectorState::kOn);
  }
}

// Events of CUDA come with synchronisation before 12.9, whether they are wanted or not.
TEST_F(CudaCollectorTest, KindsThatComeUnaskedAreNoWarning) {
  for (const uint32_t version : {18u, 22u, 26u}) {
    SCOPED_TRACE(version);
    driver_.reset();
    collector_.reset();
    LeaveGpu();
    options_.cupti_library = UseVersion(version);
    Begin();
    cuda::Bytes event(version >= 26 ? 56 : 24, 0);
    event[0] = 36;
    const cuda::Bytes kernel = Encode(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000), version);
    EXPECT_TRUE(gpu().Deliver(cuda::Join({event, kernel, event})));
    Finish();
    session().ExpectIdentity();
    EXPECT_EQ(session().Named(kAddName).size(), 1u);
    if (cuda::LeftKinds::NeverDisable(version, cuda::kKindConcurrentKernel)) {
      EXPECT_THAT(session().report().warnings, ElementsAre(HasSubstr("goes on tracing kernels")));
    } else {
      EXPECT_THAT(session().report().warnings, IsEmpty());
    }
  }
}

// The pages of a buffer that was once used stay until the capture ends.
TEST_F(CudaCollectorTest, BuffersAreUsedAgainBeforeOthersAreTouched) {
  Begin();
  const cuda::Bytes kernel = Encode(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000), 130001);
  std::set<void*> used;
  for (int i = 0; i < 100; ++i) {
    void* const buffer = gpu().Take();
    ASSERT_NE(buffer, nullptr);
    used.insert(buffer);
    gpu().Return(buffer, kernel.data(), kernel.size());
    (void)session().Drain();
  }
  Finish();
  EXPECT_EQ(session().Named(kAddName).size(), 100u);
  EXPECT_EQ(used.size(), 1u);
}

TEST_F(CudaCollectorTest, AnUnknownFutureVersionIsReadAndSaid) {
  options_.cupti_library = UseVersion(140100);
  Begin();
  gpu().Launch(kAdd);
  Finish();
  EXPECT_EQ(session().report().state, CollectorState::kDegraded);
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
  EXPECT_EQ(collector().Describe().state, CollectorState::kOn);
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

}  // namespace
}  // namespace jobscope
