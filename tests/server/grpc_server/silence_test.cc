// SPDX-License-Identifier: Apache-2.0
//
// Tests callers that stop responding without disconnecting: a machine that lost its power, a
// process that was stopped, a network that drops everything.
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <string>
#include <utility>

#include "tests/end_to_end/tcp_proxy.h"
#include "tests/server/native/native_fixture.h"

namespace jobscope {
namespace {

constexpr uint64_t kPingBytes = 17;  // a frame of HTTP/2

class SilenceTest : public NativeFixture {
 protected:
  void StartBehindProxy(GrpcServerOptions options) {
    options.keepalive_time_ms = 200;
    options.keepalive_timeout_ms = 4'000;  // the client's threads may not be run for seconds
    StartFlood(std::move(options));
    proxy_ = std::make_unique<TcpProxy>(server_->address());
    channel_ = grpc::CreateChannel(proxy_->address(), grpc::InsecureChannelCredentials());
    tensorflow_ = tensorflow::ProfilerService::NewStub(channel_);
    native_ = v1::Profiler::NewStub(channel_);
  }

  // The server has pinged so often, while it had nothing else to say.
  bool AwaitPings(int count) {
    const uint64_t before = proxy_->bytes_back();
    return Eventually(
        [&] { return proxy_->bytes_back() >= before + static_cast<uint64_t>(count) * kPingBytes; });
  }

  std::unique_ptr<TcpProxy> proxy_;
};

TEST_F(SilenceTest, AUnaryCallerFreesTheSlot) {
  StartBehindProxy(Options());
  grpc::ClientContext context;
  auto reply = ProfileAsync(&context, Request(3'600'000, "hour"));
  ASSERT_TRUE(AwaitState("recording"));
  ASSERT_TRUE(AwaitPings(5)) << "it must not give up after some";
  EXPECT_EQ(sessions_->busy()->session_id(), "hour");
  proxy_->Stall(true);
  EXPECT_TRUE(AwaitIdle());
  context.TryCancel();
  EXPECT_FALSE(reply.get().status.ok());
}

TEST_F(SilenceTest, AnArmedClientFreesTheSlot) {
  StartBehindProxy(Options());
  auto stream = Arm();
  EXPECT_TRUE(sessions_->busy().has_value());
  proxy_->Stall(true);
  EXPECT_TRUE(AwaitIdle());
  EXPECT_TRUE(Eventually([&] { return server_->open_captures() == 0; }));
  proxy_->Cut();
}

// What was started goes on, and is there when the client comes back.
TEST_F(SilenceTest, AStartedCaptureIsHeld) {
  flood_.Flood(300, 100, 20'000);
  StartBehindProxy(Options());
  auto stream = StartWholeFlood();
  proxy_->Stall(true);
  EXPECT_TRUE(Eventually([&] { return server_->open_calls() == 0; }));
  EXPECT_EQ(sessions_->busy()->state(), "recording");
  EXPECT_EQ(sessions_->Stop("s"), "s");
  EXPECT_TRUE(AwaitIdle()) << "nobody is there to deliver to";
  proxy_->Cut();
  stream->Finish();
  channel_ = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
  native_ = v1::Profiler::NewStub(channel_);
  auto fetch = Fetch(stream->armed.capture_key(), 1);
  Drain(fetch.get());
  EXPECT_EQ(EventsOf(fetch->items), 300U);
}

TEST_F(SilenceTest, ADeliveryGivesUpTheSlot) {
  flood_.Flood(300, 100, 20'000);
  StartBehindProxy(Options());
  auto stream = RecordFlood();
  ASSERT_TRUE(AwaitState("delivering"));
  proxy_->Stall(true);
  EXPECT_TRUE(AwaitIdle());
  EXPECT_EQ(server_->open_captures(), 1U);
  proxy_->Cut();
}

}  // namespace
}  // namespace jobscope
