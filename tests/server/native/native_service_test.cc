// SPDX-License-Identifier: Apache-2.0
//
// The unary methods of the native service, and health, over a real socket.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "server/limits.h"
#include "tests/full_stderr.h"
#include "tests/server/service_fixture.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;

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
