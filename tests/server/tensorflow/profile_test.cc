// SPDX-License-Identifier: Apache-2.0
//
// Profile and Terminate over a real socket.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "server/limits.h"
#include "tests/again_if_busy.h"
#include "tests/server/service_fixture.h"

namespace jobscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ProfileTest : public ServiceFixture {
 protected:
  // Expects the worker to be free a second after a caller has gone in that state.
  void ExpectFreeInTime(const tensorflow::ProfileRequest& request, const std::string& state) {
    ExpectWithin(absl::Seconds(1), [&] {
      grpc::ClientContext context;
      auto reply = ProfileAsync(&context, request);
      EXPECT_TRUE(AwaitState(state));
      const absl::Time cancelled = absl::Now();
      context.TryCancel();
      EXPECT_EQ(reply.get().status.error_code(), grpc::StatusCode::CANCELLED);
      EXPECT_TRUE(AwaitIdle());
      return absl::Now() - cancelled;
    });
  }
};

TEST_F(ProfileTest, AnswersWithAFileForTheClientToWrite) {
  StartServer();
  const Reply reply = Profile(Request(20));
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_FALSE(reply.response.empty_trace());
  EXPECT_FALSE(reply.response.has_xspace());
  ASSERT_EQ(reply.response.tool_data_size(), 1);
  EXPECT_EQ(reply.response.tool_data(0).name(), "xplane.pb");
  const auto space = Trace(reply);
  EXPECT_THAT(space.hostnames(), ElementsAre("127.0.0.1_6009"));
  ASSERT_EQ(space.planes_size(), 2);
  EXPECT_EQ(space.planes(0).name(), "/host:fake");
  EXPECT_EQ(space.planes(0).lines(0).events_size(), 1);
  const v1::Summary summary = SummaryOf(space);
  EXPECT_EQ(summary.session_id(), "s");
  EXPECT_EQ(summary.ended_by(), "duration");
  EXPECT_EQ(summary.lost(), 2u);
  EXPECT_NEAR(static_cast<double>(summary.duration_ns()), 20e6, 1e3);  // ticks are rounded
}

TEST_F(ProfileTest, AnswersWithAnXSpaceWhereThatIsAskedFor) {
  StartServer();
  tensorflow::ProfileRequest request = Request(20);
  request.set_emit_xspace(true);
  const Reply reply = Profile(request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.response.tool_data_size(), 0);
  EXPECT_FALSE(reply.response.empty_trace());
  ASSERT_TRUE(reply.response.has_xspace());
  EXPECT_EQ(reply.response.xspace().planes(0).name(), "/host:fake");
  EXPECT_EQ(reply.response.xspace().hostnames(0), "127.0.0.1_6009");
}

TEST_F(ProfileTest, NamesIgnoredOptionsInTheTrace) {
  StartServer();
  tensorflow::ProfileRequest request = Request(20);
  (*request.mutable_opts()->mutable_advanced_configuration())["gpu_fancy"].set_bool_value(true);
  const v1::Summary summary = SummaryOf(Trace(Profile(request)));
  EXPECT_THAT(summary.options().ignored(),
              ElementsAre("opts.advanced_configuration[\"gpu_fancy\"]"));
}

TEST_F(ProfileTest, RefusesNonsenseWithTheReason) {
  StartServer();
  const Reply reply = Profile(Request(0));
  EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(reply.status.error_message(),
              HasSubstr("opts.duration_ms = 0 is out of range: 1 to 3600000"));
  EXPECT_TRUE(collector_.calls().empty());
}

TEST_F(ProfileTest, RefusesALargeSessionIdButNotTheConnection) {
  StartServer();
  const Reply large = Profile(Request(20, std::string(100 << 10, 'x')));
  EXPECT_EQ(large.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(large.status.error_message(), HasSubstr("session_id"));
  const Reply larger = Profile(Request(20, std::string(1 << 20, 'x')));
  EXPECT_EQ(larger.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Profile(Request(20)).status.ok());
}

TEST_F(ProfileTest, TwoCallersAreQueued) {
  StartServer();
  grpc::ClientContext first_context, second_context;
  auto first = ProfileAsync(&first_context, Request(3'600'000, "first"));
  ASSERT_TRUE(AwaitState("recording"));
  auto second = ProfileAsync(&second_context, Request(20, "second"));
  ASSERT_TRUE(Eventually([&] {
    const auto busy = sessions_->busy();
    return busy.has_value() && busy->waiting() == 1;
  }));
  EXPECT_TRUE(Terminate("first").ok());
  EXPECT_TRUE(first.get().status.ok());
  const Reply reply = second.get();
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(SummaryOf(Trace(reply)).session_id(), "second");
}

TEST_F(ProfileTest, OneThatCannotWaitLongEnoughGetsAnError) {
  StartServer();
  grpc::ClientContext first_context;
  auto first = ProfileAsync(&first_context, Request(3'600'000, "first"));
  ASSERT_TRUE(AwaitState("recording"));
  Reply reply;
  // A call that reaches a busy server too late for its own deadline is refused at once.
  for (auto time = std::chrono::milliseconds(300); time < std::chrono::minutes(1); time *= 5) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + time);
    reply = ProfileAsync(&context, Request(100, "second")).get();
    if (reply.status.error_code() != grpc::StatusCode::INVALID_ARGUMENT) break;
  }
  EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Terminate("first").ok());
  EXPECT_TRUE(first.get().status.ok());
}

TEST_F(ProfileTest, ACallerThatGoesFreesTheWorkerWithinASecond) {
  StartServer();
  ExpectFreeInTime(Request(3'600'000), "recording");
  EXPECT_TRUE(Profile(Request(20)).status.ok());
}

TEST_F(ProfileTest, ACallerThatGoesWhileItWaitsForItsStartFreesTheWorker) {
  StartServer();
  tensorflow::ProfileRequest request = Request(1000);
  request.mutable_opts()->set_version(1);
  request.mutable_opts()->set_start_timestamp_ns(
      static_cast<uint64_t>(absl::ToUnixNanos(absl::Now() + absl::Minutes(50))));
  ExpectFreeInTime(request, "waiting");
}

TEST_F(ProfileTest, TheConnectionsEndIsTheCallersEnd) {
  StartServer();
  // A channel of its own, killed with everything on it: like a client process that dies.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  auto channel =
      grpc::CreateCustomChannel(server_->address(), grpc::InsecureChannelCredentials(), arguments);
  auto stub = tensorflow::ProfilerService::NewStub(channel);
  grpc::CompletionQueue queue;
  auto context = std::make_unique<grpc::ClientContext>();
  tensorflow::ProfileResponse response;
  grpc::Status status;
  auto call = stub->AsyncProfile(context.get(), Request(60'000), &queue);
  call->Finish(&response, &status, nullptr);
  ASSERT_TRUE(AwaitState("recording"));
  context->TryCancel();
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  call.reset();
  context.reset();
  stub.reset();
  channel.reset();
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(ProfileTest, TerminateDeliversWhatThereIs) {
  StartServer();
  grpc::ClientContext context;
  auto reply = ProfileAsync(&context, Request(60'000, "long"));
  ASSERT_TRUE(AwaitState("recording"));
  EXPECT_TRUE(Terminate("another").ok());
  EXPECT_TRUE(sessions_->busy().has_value());
  EXPECT_TRUE(Terminate("long").ok());
  const Reply answer = reply.get();
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  const v1::Summary summary = SummaryOf(Trace(answer));
  EXPECT_EQ(summary.ended_by(), "request");
  EXPECT_TRUE(summary.truncated());
}

TEST_F(ProfileTest, TerminateWithoutAnIdMeansTheCurrentOne) {
  StartServer();
  grpc::ClientContext context;
  auto reply = ProfileAsync(&context, Request(60'000, "long"));
  ASSERT_TRUE(AwaitState("recording"));
  EXPECT_TRUE(Terminate("").ok());
  EXPECT_TRUE(reply.get().status.ok());
}

TEST_F(ProfileTest, TerminateLeavesNothingBehind) {
  StartServer();
  EXPECT_TRUE(Terminate("s").ok());
  EXPECT_TRUE(Terminate("").ok());
  const v1::Summary summary = SummaryOf(Trace(Profile(Request(50))));
  EXPECT_EQ(summary.ended_by(), "duration");
  EXPECT_FALSE(summary.truncated());
}

TEST_F(ProfileTest, AnOversizedAnswerIsAnErrorWithARemedy) {
  GrpcServerOptions options = Options();
  options.max_answer_bytes = 64;
  StartServer(std::move(options));
  const Reply reply = Profile(Request(20));
  EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(reply.status.error_message(), HasSubstr("JOBSCOPE_STORE_MB"));
}

TEST_F(ProfileTest, ACollectorThatHangsLeavesTheAnswerWithAReason) {
  StartServer();
  collector_.HangIn("stop");
  const Reply reply = Profile(Request(20));
  collector_.Release();
  // Nothing of its events is there, but the reason is.
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_FALSE(reply.response.empty_trace());
  const v1::Summary summary = SummaryOf(Trace(reply));
  ASSERT_EQ(summary.collectors_size(), 1);
  EXPECT_EQ(summary.collectors(0).state(), "wedged");
}

TEST_F(ProfileTest, CallsBeyondTheLimitAreRefused) {
  StartServer();
  grpc::CompletionQueue queue;
  struct Call {
    grpc::ClientContext context;
    tensorflow::ProfileResponse response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<tensorflow::ProfileResponse>> reader;
  };
  // Over several connections: one carries kMaxStreamsPerConnection.
  constexpr size_t kCalls = limits::kMaxCalls + 20;
  std::vector<std::unique_ptr<Call>> calls;
  std::vector<std::unique_ptr<tensorflow::ProfilerService::Stub>> stubs;
  for (size_t i = 0; i < kCalls; ++i) {
    if (i % 50 == 0) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      stubs.push_back(tensorflow::ProfilerService::NewStub(grpc::CreateCustomChannel(
          server_->address(), grpc::InsecureChannelCredentials(), arguments)));
    }
    auto call = std::make_unique<Call>();
    call->reader = stubs.back()->AsyncProfile(&call->context, Request(3'000'000), &queue);
    call->reader->Finish(&call->response, &call->status, call.get());
    calls.push_back(std::move(call));
  }
  // 20 come back at once, in whatever order they arrived; the others wait.
  for (size_t i = 0; i < kCalls - limits::kMaxCalls; ++i) {
    void* tag = nullptr;
    bool ok = false;
    ASSERT_EQ(
        queue.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + std::chrono::minutes(2)),
        grpc::CompletionQueue::GOT_EVENT);
    const Call& call = *static_cast<Call*>(tag);
    EXPECT_EQ(call.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(call.status.error_message(), HasSubstr("256 calls open"));
  }
  for (const auto& call : calls) call->context.TryCancel();
  for (size_t i = 0; i < limits::kMaxCalls; ++i) {
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
  }
  EXPECT_TRUE(AwaitIdle());
}

}  // namespace
}  // namespace jobscope
