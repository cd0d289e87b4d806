// SPDX-License-Identifier: Apache-2.0
//
// Tests captures of this process, with the real recorder.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "jobscope/profiler_server.h"
#include "jobscope/v1/profiler.grpc.pb.h"
#include "tensorflow/profiler_service.grpc.pb.h"
#include "tests/server/process/worker_fixture.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

using WorkerProcessTest = WorkerFixture;

TEST_F(WorkerProcessTest, ACaptureHoldsTheScopesOfTheProcess) {
  const ProfilerServer server = ProfilerServer::Start(Loopback());
  ASSERT_TRUE(server) << server.error();
  StartLoop();
  auto stub = Tensorflow(server);
  tensorflow::ProfileResponse response;
  std::map<std::string, int> counts;
  // Longer where the loop was not run meanwhile.
  for (uint64_t duration_ms = 200; duration_ms < 20'000 && counts["load_batch"] <= 20;
       duration_ms *= 2) {
    grpc::ClientContext context;
    tensorflow::ProfileRequest request;
    request.set_duration_ms(duration_ms);
    request.set_emit_xspace(true);
    const auto start = Clock::now();
    const grpc::Status status = stub->Profile(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(duration_ms));
    counts = CountByName(response.xspace());
  }
  EXPECT_GT(counts["train"], 20);
  EXPECT_GT(counts["load_batch"], 20);
  const std::set<int64_t> steps = StepNumbers(response.xspace());
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(static_cast<int64_t>(steps.size()), *steps.rbegin() - *steps.begin() + 1)
      << "steps are missing";
}

TEST_F(WorkerProcessTest, ContinuousProfilingHasNoGap) {
  const ProfilerServer server = ProfilerServer::Start(Loopback());
  ASSERT_TRUE(server) << server.error();
  auto stub = Tensorflow(server);
  {
    grpc::ClientContext context;
    tensorflow::ProfileRequest request;
    request.mutable_opts()->set_version(1);  // host level 0, as XProf sends it
    tensorflow::ContinuousProfilingResponse response;
    ASSERT_TRUE(stub->StartContinuousProfiling(&context, request, &response).ok());
  }
  limit_ = 0;
  StartLoop();
  std::set<int64_t> steps;
  int64_t loads = 0;
  for (int64_t until : {50, 100, 150}) {
    limit_ = until;  // or the rings would be overwritten while a busy machine takes the snapshots
    AwaitStep(until);
    grpc::ClientContext context;
    tensorflow::ProfileResponse response;
    const grpc::Status status = stub->GetSnapshot(&context, {}, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    const std::set<int64_t> in_snapshot = StepNumbers(response.xspace());
    // Each snapshot reaches back to the start: what was before the one before it is there again.
    ASSERT_FALSE(in_snapshot.empty());
    EXPECT_EQ(*in_snapshot.begin(), 0);
    EXPECT_GE(*in_snapshot.rbegin(), until - 1);
    steps.insert(in_snapshot.begin(), in_snapshot.end());
    const int64_t loads_now = CountByName(response.xspace())["load_batch"];
    EXPECT_GT(loads_now, loads);
    loads = loads_now;
  }
  EXPECT_EQ(static_cast<int64_t>(steps.size()), *steps.rbegin() + 1) << "steps are missing";
  grpc::ClientContext context;
  tensorflow::StopContinuousProfilingResponse response;
  EXPECT_TRUE(stub->StopContinuousProfiling(&context, {}, &response).ok());
}

TEST_F(WorkerProcessTest, MonitorKnowsTheSteps) {
  const ProfilerServer server = ProfilerServer::Start(Loopback());
  ASSERT_TRUE(server) << server.error();
  StartLoop();
  AwaitStep(10);
  auto stub = Tensorflow(server);
  tensorflow::MonitorResponse response;
  // Again where the loop was not run meanwhile.
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    tensorflow::MonitorRequest request;
    request.set_duration_ms(300);
    ASSERT_TRUE(stub->Monitor(&context, request, &response).ok());
    const double average_ms = response.monitor_result().step_time_ms_avg();
    if (average_ms >= 1.0 && average_ms < 300.0) break;
  }
  const auto& result = response.monitor_result();
  EXPECT_EQ(result.response_type(), tensorflow::ProfilerServiceMonitorResult::UTIL_IDLE_STEP);
  EXPECT_GE(result.step_time_ms_min(), 1.0);
  EXPECT_LE(result.step_time_ms_min(), result.step_time_ms_avg());
  EXPECT_LE(result.step_time_ms_avg(), result.step_time_ms_max());
  EXPECT_LT(result.step_time_ms_avg(), 300.0);

  auto native = v1::Profiler::NewStub(
      grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext describe_context;
  v1::DescribeResponse description;
  ASSERT_TRUE(native->Describe(&describe_context, {}, &description).ok());
  EXPECT_GT(description.steps(), 10u);
  EXPECT_GE(description.step_time_ms(), 1.0);
  EXPECT_EQ(description.identity().pid(), getpid());
}

TEST_F(WorkerProcessTest, ARankThatTheProgramSetsLaterIsInTheTrace) {
  const ProfilerServer server = ProfilerServer::Start(Loopback());
  ASSERT_TRUE(server) << server.error();
  setenv("RANK", "1234", 1);
  StartLoop();
  AwaitStep(10);
  grpc::ClientContext context;
  tensorflow::ProfileRequest request;
  request.set_duration_ms(100);
  request.set_emit_xspace(true);
  tensorflow::ProfileResponse response;
  const grpc::Status status = Tensorflow(server)->Profile(&context, request, &response);
  unsetenv("RANK");
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(response.SerializeAsString(), HasSubstr("[rank 1234]"));
}

}  // namespace
}  // namespace jobscope
