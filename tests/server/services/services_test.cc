// SPDX-License-Identifier: Apache-2.0
//
// Everything but Profile over a real socket: Monitor, continuous profiling, the native service,
// health.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock/clock.h"
#include "common/clock/clock_for_testing.h"
#include "common/clock/monotonic.h"
#include "server/limits.h"
#include "server/services/continuous_profiling.h"
#include "tests/full_stderr.h"
#include "tests/server/service_fixture.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MonitorTest : public ServiceFixture {
 protected:
  grpc::Status Monitor(uint64_t duration_ms, tensorflow::MonitorResponse* response) {
    grpc::ClientContext context;
    tensorflow::MonitorRequest request;
    request.set_duration_ms(duration_ms);
    request.set_monitoring_level(1);
    request.set_timestamp(true);
    return tensorflow_->Monitor(&context, request, response);
  }
};

TEST_F(MonitorTest, TellsStepTimesCpuAndMemory) {
  StartServer();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    steps_.count = 4;
    // They begin 63, 33, 23 and 3 ms ago: the loop waits between its marks.
    steps_.recent = {{0, absl::Milliseconds(4), absl::Milliseconds(59)},
                     {1, absl::Milliseconds(4), absl::Milliseconds(29)},
                     {2, absl::Milliseconds(4), absl::Milliseconds(19)}};
    steps_.current = StepTiming{3, absl::Milliseconds(3), absl::ZeroDuration()};
  }
  tensorflow::MonitorResponse response;
  const absl::Time start = absl::Now();
  ASSERT_TRUE(Monitor(100, &response).ok());
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(99));
  const auto& result = response.monitor_result();
  EXPECT_EQ(result.response_type(), tensorflow::ProfilerServiceMonitorResult::UTIL_IDLE_STEP);
  EXPECT_DOUBLE_EQ(result.step_time_ms_avg(), 20);
  EXPECT_DOUBLE_EQ(result.step_time_ms_min(), 10);
  EXPECT_DOUBLE_EQ(result.step_time_ms_max(), 30);
  EXPECT_THAT(
      response.data(),
      AllOf(
          HasSubstr("time: 20"), HasSubstr("steps: 4 begun, number 3 runs"),
          HasSubstr("avg 20.000 ms, min 10.000 ms, max 30.000 ms (begin to begin, 3 in this time)"),
          HasSubstr("cpu: "), HasSubstr("rss: ")));
}

TEST_F(MonitorTest, TellsStepTimesOfBeforeIfNoneEndedMeanwhile) {
  StartServer();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    steps_.count = 3;
    steps_.recent = {{0, absl::Milliseconds(4), absl::Hours(1) + absl::Milliseconds(50)},
                     {1, absl::Milliseconds(4), absl::Hours(1)}};
  }
  tensorflow::MonitorResponse response;
  ASSERT_TRUE(Monitor(1, &response).ok());
  EXPECT_DOUBLE_EQ(response.monitor_result().step_time_ms_avg(), 50);
  EXPECT_THAT(response.data(), HasSubstr("(begin to begin, 1 before it: none in this time)"));
}

TEST_F(MonitorTest, AStepThatEndedBeforeTheTimeDoesNotCount) {
  StartServer();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    steps_.count = 4;
    steps_.recent = {{0, absl::Milliseconds(4), absl::Hours(3)},
                     {1, absl::Milliseconds(4), absl::Hours(2)},
                     {2, absl::Milliseconds(4), absl::ZeroDuration()}};
  }
  tensorflow::MonitorResponse response;
  ASSERT_TRUE(Monitor(100, &response).ok());
  EXPECT_THAT(response.data(), HasSubstr("(begin to begin, 1 in this time)"));
}

TEST_F(MonitorTest, OneStepHasNoTime) {
  StartServer();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    steps_.count = 1;
    steps_.recent = {{0, absl::Milliseconds(4), absl::Milliseconds(1)}};
  }
  tensorflow::MonitorResponse response;
  ASSERT_TRUE(Monitor(0, &response).ok());
  EXPECT_EQ(response.monitor_result().response_type(),
            tensorflow::ProfilerServiceMonitorResult::EMPTY_RESULT);
  EXPECT_THAT(response.data(), HasSubstr("steps: 1 begun\n"));
}

TEST_F(MonitorTest, AnswersAtOnceWithoutADuration) {
  StartServer();
  tensorflow::MonitorResponse response;
  ASSERT_TRUE(Monitor(0, &response).ok());
  EXPECT_EQ(response.monitor_result().response_type(),
            tensorflow::ProfilerServiceMonitorResult::EMPTY_RESULT);
  EXPECT_THAT(response.data(), HasSubstr("none recorded"));
}

TEST_F(MonitorTest, RefusesALongOne) {
  StartServer();
  tensorflow::MonitorResponse response;
  EXPECT_EQ(Monitor(60'001, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(MonitorTest, ACallerMayGo) {
  StartServer();
  grpc::ClientContext context;
  tensorflow::MonitorRequest request;
  request.set_duration_ms(60'000);
  tensorflow::MonitorResponse response;
  auto status = std::async(std::launch::async,
                           [&] { return tensorflow_->Monitor(&context, request, &response); });
  ASSERT_TRUE(Eventually([&] { return server_->open_calls() == 1; }));
  context.TryCancel();
  EXPECT_EQ(status.get().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return server_->open_calls() == 0; }));
}

TEST_F(MonitorTest, DoesNotDelayTheServersEnd) {
  StartServer();
  auto status = std::async(std::launch::async, [&] {
    tensorflow::MonitorResponse response;
    return Monitor(60'000, &response);
  });
  ASSERT_TRUE(Eventually([&] { return server_->open_calls() == 1; }));
  const absl::Time start = absl::Now();
  StopServer(absl::Minutes(2));
  EXPECT_LT(absl::Now() - start, absl::Seconds(50));
  EXPECT_EQ(status.get().error_code(), grpc::StatusCode::UNAVAILABLE);
}

class ContinuousTest : public ServiceFixture {
 protected:
  grpc::Status Start() {
    grpc::ClientContext context;
    tensorflow::ProfileRequest request;
    request.mutable_opts()->set_version(1);
    request.mutable_opts()->set_duration_ms(2000);
    request.set_host_name("127.0.0.1:6009");
    tensorflow::ContinuousProfilingResponse response;
    return tensorflow_->StartContinuousProfiling(&context, request, &response);
  }
  grpc::Status Stop() {
    grpc::ClientContext context;
    tensorflow::StopContinuousProfilingResponse response;
    return tensorflow_->StopContinuousProfiling(&context, {}, &response);
  }
  Reply Snapshot(const std::string& id = "") {
    grpc::ClientContext context;
    tensorflow::GetSnapshotRequest request;
    request.set_snapshot_session_id(id);
    Reply reply;
    reply.status = tensorflow_->GetSnapshot(&context, request, &reply.response);
    return reply;
  }
};

TEST_F(ContinuousTest, NeedsAStart) {
  StartServer();
  EXPECT_EQ(Snapshot().status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Snapshot().status.error_message(), "No continuous profiling session found.");
  EXPECT_EQ(Stop().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Stop().error_message(), "No continuous profiling session found.");
}

TEST_F(ContinuousTest, RecordsFromStartToStop) {
  StartServer();
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Describe().continuous_profiling());
  const grpc::Status again = Start();
  EXPECT_EQ(again.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(again.error_message(), "A profiling session is already running.");
  for (int i = 0; i < 2; ++i) {
    const Reply reply = Snapshot();
    ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
    ASSERT_TRUE(reply.response.has_xspace());
    EXPECT_FALSE(reply.response.empty_trace());
    EXPECT_EQ(reply.response.tool_data_size(), 0);
    EXPECT_EQ(reply.response.xspace().hostnames(0), "127.0.0.1_6009");
  }
  {
    // Neither snapshot has touched the recording.
    std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_THAT(recording_, ElementsAre(std::optional<int>(2)));
  }
  EXPECT_TRUE(Stop().ok());
  EXPECT_FALSE(Describe().continuous_profiling());
  std::lock_guard<std::mutex> lock(mutex_);
  EXPECT_THAT(recording_, ElementsAre(std::optional<int>(2), std::nullopt));
}

TEST_F(ContinuousTest, JudgesTheNameOfASnapshotFirst) {
  StartServer();
  EXPECT_EQ(Snapshot("../x").status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Snapshot("../x").status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const Reply reply = Snapshot("mine-1");
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(SummaryOf(reply.response.xspace()).session_id(), "mine-1");
}

TEST_F(ContinuousTest, TheServersEndIsItsEnd) {
  StartServer();
  ASSERT_TRUE(Start().ok());
  StopServer();
  std::lock_guard<std::mutex> lock(mutex_);
  EXPECT_THAT(recording_, ElementsAre(std::optional<int>(2), std::nullopt));
}

// Whose client has disconnected, for example.
TEST_F(ContinuousTest, EndsAtTheOperatorsCeiling) {
  GrpcServerOptions options = Options();
  options.ceilings.duration_ms = 50;
  StartServer(std::move(options));
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Eventually([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    return recording_.size() == 2;
  }));
  EXPECT_FALSE(Describe().continuous_profiling());
  const grpc::Status snapshot = Snapshot().status;
  EXPECT_EQ(snapshot.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(snapshot.error_message(),
              AllOf(HasSubstr("No continuous profiling session found."),
                    HasSubstr("ended after 50ms"), HasSubstr("JOBSCOPE_MAX_DURATION_MS")));
  std::lock_guard<std::mutex> lock(mutex_);
  EXPECT_THAT(recording_, ElementsAre(std::optional<int>(2), std::nullopt));
}

TEST_F(ContinuousTest, ASnapshotReachesBackToTheCeilingAtMost) {
  constexpr int64_t kDateNs = 1'700'000'000'000'000'000;
  const absl::Time start = SteadyNow();
  ContinuousProfiling continuous([](std::optional<int> /*level*/) {}, absl::Minutes(10));
  ASSERT_TRUE(continuous.Start({}, start).ok());
  const auto snapshot = continuous.Snapshot(start + absl::Minutes(9), kDateNs);
  EXPECT_EQ(snapshot->options.lookback, absl::Minutes(9));
  EXPECT_EQ(snapshot->options.start_unix_ns, kDateNs);
  EXPECT_EQ(continuous.Snapshot(start + absl::Minutes(11), kDateNs)->options.lookback,
            absl::Minutes(10));
}

TEST_F(ContinuousTest, AClockThatIsSetBackShortensNoSnapshot) {
  collector_.set_oldest_ticks(0);  // has recorded for ever
  StartServer();
  ASSERT_TRUE(Start().ok());
  const absl::Time started = SteadyNow();
  EXPECT_TRUE(Eventually([&] { return SteadyNow() - started > absl::Milliseconds(20); }));
  ShiftRealtimeForTesting(-absl::ToInt64Nanoseconds(absl::Hours(1)));
  const Reply reply = Snapshot();
  const int64_t now_ns = RealtimeNs();
  ShiftRealtimeForTesting(0);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  const v1::Summary summary = SummaryOf(reply.response.xspace());
  EXPECT_GT(summary.lookback_ns(), 20'000'000u);
  // The instants of the trace have the date as it is now.
  EXPECT_LE(summary.zero_unix_ns(), now_ns);
}

TEST_F(ContinuousTest, CountsAsACapture) {
  GrpcServerOptions options = Options();
  options.ceilings.captures_per_minute = 2;
  StartServer(std::move(options));
  ASSERT_TRUE(Start().ok());
  // Refused, it does not.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Start().error_code(), grpc::StatusCode::ALREADY_EXISTS);
  }
  // So does each snapshot.
  EXPECT_TRUE(Snapshot().status.ok());
  EXPECT_EQ(Snapshot().status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Start().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ASSERT_TRUE(Stop().ok());
  EXPECT_EQ(Start().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  std::lock_guard<std::mutex> lock(mutex_);
  EXPECT_THAT(recording_, ElementsAre(std::optional<int>(2), std::nullopt));
}

class NativeTest : public ServiceFixture {
 protected:
  v1::StopResponse Stop(const std::string& id) {
    grpc::ClientContext context;
    v1::StopRequest request;
    request.set_session_id(id);
    v1::StopResponse response;
    EXPECT_TRUE(native_->Stop(&context, request, &response).ok());
    return response;
  }
};

TEST_F(NativeTest, DescribesAnIdleWorker) {
  StartServer();
  const v1::DescribeResponse description = Describe();
  EXPECT_FALSE(description.version().empty());
  EXPECT_EQ(description.identity().host(), "test-host");
  EXPECT_EQ(description.identity().pid(), 4711);
  EXPECT_EQ(description.identity().rank(), 3);
  EXPECT_EQ(description.tick_source(), "tsc");
  ASSERT_EQ(description.collectors_size(), 1);
  EXPECT_EQ(description.collectors(0).name(), "fake");
  EXPECT_EQ(description.collectors(0).state(), "on");
  EXPECT_FALSE(description.has_busy());
  EXPECT_EQ(description.limits().max_duration_ms(), limits::kMaxDurationMs);
  EXPECT_EQ(description.limits().store_bytes(), limits::kDefaultStoreBytes);
  EXPECT_FALSE(description.has_current_step());
  EXPECT_NEAR(static_cast<double>(description.start_unix_ns()),
              static_cast<double>(absl::ToUnixNanos(absl::Now())), 60e9);
}

// An audit line is written before each answer, on a thread that serves all callers.
TEST_F(NativeTest, AnswersWhileNobodyReadsStderr) {
  StartServer();
  const FullStderr full;
  for (int call = 0; call < 3; ++call) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(1)));
    v1::DescribeResponse response;
    const grpc::Status status = native_->Describe(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << call << ": " << status.error_message();
  }
}

TEST_F(NativeTest, DescribesSteps) {
  StartServer();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    steps_.count = 9;
    steps_.recent = {{6, absl::Milliseconds(10), absl::Milliseconds(63)},
                     {7, absl::Milliseconds(20), absl::Milliseconds(23)}};
    steps_.current = StepTiming{8, absl::Milliseconds(3), {}};
  }
  const v1::DescribeResponse description = Describe();
  EXPECT_EQ(description.steps(), 9u);
  EXPECT_TRUE(description.has_current_step());
  EXPECT_EQ(description.current_step(), 8);
  EXPECT_DOUBLE_EQ(description.step_time_ms(), 30);
}

// A loop that waits for its batch outside its steps: most of the time none runs.
TEST_F(NativeTest, DescribesStepsWithAWaitBetweenThem) {
  StartServer();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    steps_.count = 3;
    for (int64_t step = 0; step < 3; ++step) {
      steps_.recent.push_back(
          {step, absl::Milliseconds(10), absl::Milliseconds(20 + 70 * (2 - step))});
    }
  }
  const v1::DescribeResponse description = Describe();
  EXPECT_TRUE(description.has_current_step());
  EXPECT_EQ(description.current_step(), 2);
  EXPECT_DOUBLE_EQ(description.step_time_ms(), 70);
}

TEST_F(NativeTest, OneStepHasNoTimeYet) {
  StartServer();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    steps_.count = 1;
    steps_.recent = {{5, absl::Milliseconds(10), absl::Milliseconds(20)}};
  }
  const v1::DescribeResponse description = Describe();
  EXPECT_EQ(description.current_step(), 5);
  EXPECT_DOUBLE_EQ(description.step_time_ms(), 0);
}

TEST_F(NativeTest, TellsWhoIsBusy) {
  StartServer();
  grpc::ClientContext context;
  auto reply = ProfileAsync(&context, Request(3'600'000, "long"));
  ASSERT_TRUE(AwaitState("recording"));
  const v1::DescribeResponse description = Describe();
  ASSERT_TRUE(description.has_busy());
  EXPECT_EQ(description.busy().session_id(), "long");
  EXPECT_THAT(description.busy().peer(), HasSubstr("127.0.0.1:"));
  EXPECT_GT(description.busy().remaining_ms(), 3'400'000u);
  EXPECT_LE(description.busy().remaining_ms(), 3'600'000u);

  EXPECT_FALSE(Stop("another").stopped());
  const v1::StopResponse stopped = Stop("");
  EXPECT_TRUE(stopped.stopped());
  EXPECT_EQ(stopped.session_id(), "long");
  EXPECT_TRUE(reply.get().status.ok());
  ASSERT_TRUE(AwaitIdle());
  EXPECT_FALSE(Stop("").stopped());
}

// The health service needs no generated code: HealthCheckResponse{status: SERVING} is the bytes 08
// 01.
TEST_F(NativeTest, IsHealthy) {
  StartServer();
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  const grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  grpc::CompletionQueue queue;
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  ASSERT_TRUE(status.ok()) << status.error_message();
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(response.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  EXPECT_EQ(bytes, std::string("\x08\x01"));
}

}  // namespace
}  // namespace jobscope
