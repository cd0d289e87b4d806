// SPDX-License-Identifier: Apache-2.0
//
// Tests the outcomes of a capture whose client reads nothing, or sends nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/server/native/native_fixture.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;

using NativeStallTest = NativeFixture;

// A client that is there, and takes nothing, does not block the worker.
TEST_F(NativeStallTest, AStalledDeliveryGivesUpTheSlot) {
  flood_.Flood(300, 100, kFloodItemBytes);
  GrpcServerOptions options = Options();
  options.native_limits.stall = absl::Seconds(1);
  StartFlood(std::move(options));
  auto stalled = RecordFlood("stalled");
  EXPECT_TRUE(AwaitIdle());
  EXPECT_EQ(server_->open_captures(), 1U);
  auto next = Start(absl::Milliseconds(1), "next");
  Drain(next.get());
  const grpc::Status status = stalled->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(status.error_message(), HasSubstr("evicted by session \"next\""));
}

// Nor one that only says that it is there.
TEST_F(NativeStallTest, AcknowledgingNothingKeepsNoSlot) {
  flood_.Flood(300, 100, kFloodItemBytes);
  GrpcServerOptions options = Options();
  options.native_limits.stall = absl::Seconds(1);
  StartFlood(std::move(options));
  auto stalled = RecordFlood("stalled");
  EXPECT_TRUE(Eventually([&] { return !stalled->Ack(0) || !sessions_->busy().has_value(); }));
  EXPECT_EQ(server_->open_captures(), 1U);
  Drain(stalled.get());  // it is still held
  EXPECT_EQ(EventsOf(stalled->items), 300U);
}

// A client whose disk stands still takes nothing, and says that it lives.
TEST_F(NativeStallTest, WhoRepeatsAnAcknowledgementIsNotGivenUp) {
  constexpr absl::Duration kHold = absl::Seconds(3);
  flood_.Flood(300, 100, kFloodItemBytes);
  GrpcServerOptions options = Options();
  options.native_limits.hold = kHold;
  StartFlood(std::move(options));
  auto waiting = RecordFlood("waiting");
  const absl::Time until = absl::Now() + 3 * kHold;
  EXPECT_TRUE(Eventually([&] { return !waiting->Ack(0) || absl::Now() > until; }));
  Drain(waiting.get());
  EXPECT_EQ(EventsOf(waiting->items), 300U);
}

TEST_F(NativeStallTest, WhoSaysNothingIsGivenUp) {
  flood_.Flood(300, 100, kFloodItemBytes);
  GrpcServerOptions options = Options();
  options.native_limits.hold = absl::Milliseconds(200);
  StartFlood(std::move(options));
  auto silent = RecordFlood("silent");
  EXPECT_TRUE(Eventually([&] { return server_->open_captures() == 0; }));
  const grpc::Status status = silent->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("its client has received nothing of it for 200ms"));
}

// What a client did while the capture recorded does not count when it has ended.
TEST_F(NativeStallTest, AClientThatStoodStillMayGoOnAfterTheEnd) {
  flood_.Flood(2'000, 100, kFloodItemBytes);  // more than sockets hold
  GrpcServerOptions options = Options();
  options.native_limits.hold = absl::Seconds(5);
  options.native_limits.stall = absl::Seconds(5);
  StartFlood(std::move(options));
  auto stream = StartWholeFlood("slow");
  const auto stand_still = [](absl::Duration duration) {
    const absl::Time until = absl::Now() + duration;
    ASSERT_TRUE(Eventually([&] { return absl::Now() > until; }));
  };
  stand_still(absl::Milliseconds(5500));
  EXPECT_EQ(sessions_->Stop("slow"), "slow");
  ASSERT_TRUE(AwaitState("delivering"));
  stand_still(absl::Milliseconds(500));  // two ticks and more
  EXPECT_TRUE(sessions_->busy().has_value());
  Drain(stream.get());
  EXPECT_EQ(EventsOf(stream->items), 2'000U);
}

}  // namespace
}  // namespace jobscope
