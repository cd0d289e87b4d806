// SPDX-License-Identifier: Apache-2.0
//
// Monitor over a real socket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "absl/time/clock.h"
#include "rpc/server_ended.h"
#include "tests/server/service_fixture.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
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
          HasSubstr("avg 20.000 ms, min 10.000 ms, max 30.000 ms (start to start, 3 in this time)"),
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
  EXPECT_THAT(response.data(), HasSubstr("(start to start, 1 before it: none in this time)"));
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
  EXPECT_THAT(response.data(), HasSubstr("(start to start, 1 in this time)"));
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
  const grpc::Status ended = status.get();
  EXPECT_EQ(ended.error_message(), kServerEndedText);
  EXPECT_TRUE(IsServerEnded(grpc::Status(ended.error_code(), "", ended.error_details())));
}

}  // namespace
}  // namespace jobscope
