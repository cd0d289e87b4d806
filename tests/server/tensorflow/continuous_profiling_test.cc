// SPDX-License-Identifier: Apache-2.0
//
// Continuous profiling over a real socket.
#include "server/tensorflow/continuous_profiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "common/clock/clock_for_testing.h"
#include "common/clock/monotonic.h"
#include "server/limits.h"
#include "tests/server/service_fixture.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace jobscope
