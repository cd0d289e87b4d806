// SPDX-License-Identifier: Apache-2.0
//
// Tests which GPU work belongs to which step of the program and to which call that launched it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "collectors/cuda/events/event_writer.h"
#include "common/xspace/segment/trace_planes.h"
#include "tests/collectors/cuda/collector_fixture.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;

using cuda::FakeGpu;
using cuda::RealtimeNs;

using CudaStepsTest = CudaCollectorTest;

TEST_F(CudaStepsTest, LaunchesAndLonelyKernelsAreTiedToTheirStep) {
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

TEST_F(CudaStepsTest, AGpuWithoutAnyStepDoesNotStandWhereItWouldHideTheHostsSteps) {
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

TEST_F(CudaStepsTest, AStepThatIsCutAtTheEdgeTiesNothing) {
  steps_ = {{1, session().Now() - 1'000'000, 0}};
  Begin();
  gpu().Launch(kAdd, 1'000);
  Finish();
  EXPECT_THAT(session().One("Launch vecAdd").ints, Not(Contains(Key("_ct"))));
  EXPECT_EQ(session().One(kAddName).plane, "/device:GPU:0");
}

TEST_F(CudaStepsTest, AKernelBeforeItsLaunchIsSaid) {
  Begin();
  const uint32_t correlation = FakeGpu::NextCorrelation();
  const uint64_t now_ns = RealtimeNs();
  gpu().Emit(FakeGpu::Call(cuda::kLaunchKernelCall, correlation, now_ns + 50'000));
  gpu().Emit(FakeGpu::Kernel(kAdd, correlation, now_ns, 1'000));
  session().StopAt(session().Now() + 10'000'000);
  EXPECT_THAT(session().report().warnings,
              Contains(HasSubstr("1 of 1 kernels start before the call")));
}

TEST_F(CudaStepsTest, TheOrderOfLaunchesAndKernelsIsReportedInEachTrace) {
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

}  // namespace
}  // namespace jobscope
