// SPDX-License-Identifier: Apache-2.0
//
// Tests what is recorded on request only, and the options in the environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "collectors/cuda/libraries/cupti_api.h"
#include "tests/collectors/cuda/collector_fixture.h"

namespace jobscope {
namespace {

using cuda::Activity;
using cuda::ActivityType;
using cuda::FinalizeChoice;
using cuda::RealtimeNs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using CudaOptionsTest = CudaCollectorTest;

constexpr uint32_t kKindUnifiedMemory = 25;

TEST_F(CudaOptionsTest, UnifiedMemoryIsNotTracedUnlessAskedFor) {
  Begin();
  EXPECT_EQ(gpu().IsEnabled(kKindUnifiedMemory), 0);
  EXPECT_EQ(gpu().Calls("cuptiActivityConfigureUnifiedMemoryCounter"), 0u);
  Finish();
}

TEST_F(CudaOptionsTest, UnifiedMemoryStandsOnALineOfItsOwn) {
  options_.unified_memory = true;
  Begin();
  EXPECT_EQ(gpu().UnifiedMemoryCounters(), 5);
  ASSERT_EQ(gpu().IsEnabled(kKindUnifiedMemory), 1);
  Activity migration;
  migration.type = ActivityType::kUnifiedMemory;
  migration.sub_kind = 1;  // bytes to the GPU
  migration.start_ns = RealtimeNs();
  migration.end_ns = migration.start_ns + 5'000;
  migration.bytes = 65'536;
  migration.address = 0x7000;
  gpu().Emit(migration);
  Finish();
  session().ExpectIdentity();
  ASSERT_EQ(session().events_read().size(), 1u);
  const ReadEvent& event = session().events_read()[0];
  EXPECT_EQ(event.plane, "/device:CUSTOM:CUDA");
  EXPECT_EQ(event.line, "unified memory");
  EXPECT_EQ(event.ints.at("value"), 65'536);
  EXPECT_EQ(gpu().IsEnabled(kKindUnifiedMemory), 0);
}

// NVIDIA: "Ignore this field", of the end of faults on the CPU, thrashing and remote maps.
TEST_F(CudaOptionsTest, InstantsOfUnifiedMemoryHaveNoEnd) {
  options_.unified_memory = true;
  Begin();
  Activity fault;
  fault.type = ActivityType::kUnifiedMemory;
  fault.start_ns = RealtimeNs();
  fault.address = 0x7000;
  for (const uint8_t kind : {3, 5, 7}) {
    for (const uint64_t end_ns : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
      fault.sub_kind = kind;
      fault.end_ns = end_ns;
      gpu().Emit(fault);
    }
  }
  // Others have one, and are cut where it is not known.
  fault.sub_kind = 4;
  fault.end_ns = 0;
  gpu().Emit(fault);
  Finish();
  session().ExpectIdentity();
  EXPECT_THAT(session().report().lost_by_cause, IsEmpty());
  ASSERT_EQ(session().events_read().size(), 10u);
  for (const ReadEvent& event : session().events_read()) {
    SCOPED_TRACE(event.name);
    if (event.name == "GPU page faults") {
      EXPECT_EQ(event.ints.count("truncated"), 1u);
      continue;
    }
    EXPECT_EQ(event.duration_ps, 1);
    EXPECT_EQ(event.ints.count("truncated"), 0u);
    // Of a fault on the CPU the value is the place in the program.
    EXPECT_EQ(event.ints.count("value"), event.name == "CPU page faults" ? 0u : 1u);
    EXPECT_EQ(event.ints.count("program_counter"), event.name == "CPU page faults" ? 1u : 0u);
  }
}

TEST_F(CudaOptionsTest, UnifiedMemoryThatThisSystemCannotTraceIsSaid) {
  options_.unified_memory = true;
  for (const int result : {28, 29, 30, 31}) {
    SCOPED_TRACE(result);
    driver_.reset();
    gpu().Reset(130001);
    gpu().Fail("cuptiActivityConfigureUnifiedMemoryCounter", result, 0);
    Begin();
    EXPECT_EQ(gpu().IsEnabled(kKindUnifiedMemory), 0);
    gpu().Launch(kAdd);
    Finish();
    EXPECT_EQ(session().report().state, CollectorState::kOn);
    EXPECT_EQ(session().Named(kAddName).size(), 1u);
    EXPECT_THAT(session().report().warnings,
                Contains(AllOf(HasSubstr("unified memory is not traced"),
                               HasSubstr(std::to_string(result) + " UM_PROFILING"))));
  }
}

// CUPTI's own limit is 250 buffers of 3.2 MB for each context: memory that the job may need.
TEST_F(CudaOptionsTest, MemoryOfTheGpuIsCappedWhileACaptureRuns) {
  Begin();
  EXPECT_EQ(gpu().Attribute(cuda::kDeviceBufferPoolLimit), 20u);
  Finish();
  EXPECT_EQ(gpu().Attribute(cuda::kDeviceBufferPoolLimit), 250u);
  driver_.reset();
  collector_.reset();
  options_.device_buffer_bytes = 1;
  Begin();
  EXPECT_EQ(gpu().Attribute(cuda::kDeviceBufferPoolLimit), 2u);
  Finish();
  driver_.reset();
  collector_.reset();
  options_.device_buffer_bytes = uint64_t{1} << 40;
  Begin();
  EXPECT_EQ(gpu().Attribute(cuda::kDeviceBufferPoolLimit), 250u);  // never raised
  gpu().Launch(kAdd);
  Finish();
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
}

TEST_F(CudaOptionsTest, AnArmThatFailsGivesTheLimitBack) {
  gpu().Fail("cuptiActivityEnable:10", 35, 0);
  EXPECT_FALSE(session().Arm().ok());
  EXPECT_EQ(gpu().Attribute(cuda::kDeviceBufferPoolLimit), 250u);
}

// Kineto clears the attribute after each of its recordings.
TEST_F(CudaOptionsTest, EachThreadHasABufferFrom12_8On) {
  for (const uint32_t version : {22u, 26u, 28u, 130001u}) {
    driver_.reset();
    collector_.reset();
    LeaveGpu();
    options_.cupti_library = UseVersion(version);
    for (int capture = 0; capture < 3; ++capture) {
      SCOPED_TRACE(::testing::Message() << version << ", capture " << capture);
      driver_.reset();
      Begin();
      // Not while the kernels of before are still traced.
      const bool traces =
          capture == 2 && cuda::LeftKinds::NeverDisable(version, cuda::kKindConcurrentKernel);
      EXPECT_EQ(gpu().Attribute(cuda::kPerThreadBuffer),
                version < cuda::kCupti12_8 || traces ? 0u : 1u);
      Finish();
      if (capture == 1) gpu().SetAttribute(cuda::kPerThreadBuffer, 0);
    }
  }
}

TEST(CudaOptionsEnvironmentTest, IsReadAndWhatIsWrongIsLeftAtItsDefault) {
  const auto with = [](const char* name, const char* value) {
    EXPECT_EQ(setenv(name, value, 1), 0);
    CudaCollectorOptions options = CudaCollectorOptions::FromEnvironment();
    EXPECT_EQ(unsetenv(name), 0);
    return options;
  };
  EXPECT_TRUE(with("JOBSCOPE_CUDA_UNIFIED_MEMORY", "1").unified_memory);
  EXPECT_FALSE(with("JOBSCOPE_CUDA_UNIFIED_MEMORY", "0").unified_memory);
  EXPECT_EQ(with("JOBSCOPE_CUPTI_FINALIZE", "never").finalize, FinalizeChoice::kNever);
  EXPECT_EQ(CudaCollectorOptions::FromEnvironment().finalize, FinalizeChoice::kNever);
  EXPECT_EQ(with("JOBSCOPE_CUPTI_FINALIZE", "maybe").finalize, FinalizeChoice::kNever);
  EXPECT_EQ(with("JOBSCOPE_CUPTI_FINALIZE", "auto").finalize, FinalizeChoice::kByVersion);
  EXPECT_EQ(with("JOBSCOPE_CUPTI_FINALIZE", "always").finalize, FinalizeChoice::kAlways);
  EXPECT_EQ(with("JOBSCOPE_CUDA_BUFFER_MB", "8").buffer_bytes, uint64_t{8} << 20);
  EXPECT_EQ(with("JOBSCOPE_CUDA_DEVICE_BUFFER_MB", "128").device_buffer_bytes, uint64_t{128} << 20);
  for (const char* const wrong : {"0", "-1", "1025", "x", ""}) {
    EXPECT_EQ(with("JOBSCOPE_CUDA_BUFFER_MB", wrong).buffer_bytes, uint64_t{256} << 20) << wrong;
    EXPECT_EQ(with("JOBSCOPE_CUDA_DEVICE_BUFFER_MB", wrong).device_buffer_bytes, uint64_t{64} << 20)
        << wrong;
  }
}

}  // namespace
}  // namespace jobscope
