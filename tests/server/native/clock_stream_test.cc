// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "absl/time/clock.h"
#include "common/clock/clock.h"
#include "rpc/server_ended.h"
#include "tests/server/native/native_fixture.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;

class ClockStreamTest : public NativeFixture {
 protected:
  using Pings = grpc::ClientReaderWriter<v1::ClockPing, v1::ClockPong>;
};

TEST_F(ClockStreamTest, OnePongForEachPing) {
  StartServer();
  grpc::ClientContext context;
  const auto stream = native_->SyncClock(&context);
  for (uint64_t number = 1; number <= 20; ++number) {
    v1::ClockPing ping;
    ping.set_number(number);
    const int64_t before_unix_ns = RealtimeNs();
    const uint64_t sent_ns = WorkerMonotonicNs();
    ASSERT_TRUE(stream->Write(ping));
    v1::ClockPong pong;
    ASSERT_TRUE(stream->Read(&pong));
    const uint64_t received_ns = WorkerMonotonicNs();
    EXPECT_EQ(pong.number(), number);
    // One machine, one clock: the order is that of the events.
    EXPECT_LE(sent_ns, pong.received_monotonic_ns());
    EXPECT_LE(pong.received_monotonic_ns(), pong.sent_monotonic_ns());
    EXPECT_LE(pong.sent_monotonic_ns(), received_ns);
    EXPECT_GE(static_cast<int64_t>(pong.realtime_ns()), before_unix_ns - 1'000'000'000);
    EXPECT_LE(static_cast<int64_t>(pong.realtime_ns()), RealtimeNs() + 1'000'000'000);
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ClockStreamTest, ABurstIsAnsweredInOrder) {
  StartServer();
  grpc::ClientContext context;
  const auto stream = native_->SyncClock(&context);
  for (uint64_t number = 1; number <= 50; ++number) {
    v1::ClockPing ping;
    ping.set_number(number);
    ASSERT_TRUE(stream->Write(ping));
  }
  stream->WritesDone();
  v1::ClockPong pong;
  uint64_t number = 0;
  while (stream->Read(&pong)) EXPECT_EQ(pong.number(), ++number);
  EXPECT_EQ(number, 50U);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ClockStreamTest, PingsAreBounded) {
  StartServer();
  grpc::ClientContext context;
  const auto stream = native_->SyncClock(&context);
  v1::ClockPong pong;
  uint64_t pongs = 0;
  while (stream->Write({}) && stream->Read(&pong)) ++pongs;
  EXPECT_EQ(pongs, limits::kMaxPings);
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("at most 1000"));
}

TEST_F(ClockStreamTest, AnIdleStreamEnds) {
  GrpcServerOptions options = Options();
  options.native_limits.clock_idle = absl::Milliseconds(100);
  StartServer(std::move(options));
  grpc::ClientContext context;
  const auto stream = native_->SyncClock(&context);
  v1::ClockPong pong;
  ASSERT_TRUE(stream->Write({}) && stream->Read(&pong));
  EXPECT_FALSE(stream->Read(&pong));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("no clock ping came for 100ms"));
}

TEST_F(ClockStreamTest, TheServersEndEndsIt) {
  StartServer();
  grpc::ClientContext context;
  const auto stream = native_->SyncClock(&context);
  v1::ClockPong pong;
  ASSERT_TRUE(stream->Write({}) && stream->Read(&pong));
  const absl::Time before = absl::Now();
  StopServer(absl::Minutes(2));
  EXPECT_LT(absl::Now() - before, absl::Minutes(1));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_message(), kServerEndedText);
  EXPECT_TRUE(IsServerEnded(grpc::Status(status.error_code(), "", status.error_details())));
}

TEST_F(ClockStreamTest, ACallerMayGo) {
  StartServer();
  grpc::ClientContext context;
  const auto stream = native_->SyncClock(&context);
  v1::ClockPong pong;
  ASSERT_TRUE(stream->Write({}) && stream->Read(&pong));
  context.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return server_->open_calls() == 0; }));
}

}  // namespace
}  // namespace jobscope
