// SPDX-License-Identifier: Apache-2.0
//
// Tests a client that disconnects, and a server that ends, in each state of a native capture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "common/clock/clock.h"
#include "rpc/server_ended.h"
#include "tests/again_if_busy.h"
#include "tests/server/native/native_fixture.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;

class NativeLossTest : public NativeFixture {};

TEST_F(NativeLossTest, WhileArming) {
  StartServer();
  collector_.HangIn("arm");
  auto stream = Open();
  ASSERT_TRUE(stream->Send(ArmRequestOf("s")));
  ASSERT_TRUE(collector_.AwaitCalls("arm", 1));
  stream->Cancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  collector_.Release();
  EXPECT_TRUE(AwaitIdle());
  EXPECT_TRUE(Eventually([&] { return server_->open_captures() == 0; }));
}

TEST_F(NativeLossTest, WhileArmed) {
  StartServer();
  ExpectWithin(absl::Seconds(1), [this] {  // milliseconds, on an idle machine
    auto stream = Arm();
    const absl::Time before = absl::Now();
    stream->Cancel();
    EXPECT_TRUE(AwaitIdle());
    const absl::Duration took = absl::Now() - before;
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_TRUE(
        Eventually([&] { return server_->open_captures() == 0 && server_->open_calls() == 0; }));
    const grpc::Status status = Fetch(stream->armed.capture_key(), 1)->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
    EXPECT_THAT(status.error_message(), HasSubstr("its stream was lost before the start"));
    return took;
  });
}

TEST_F(NativeLossTest, WhileQueuedForADelivery) {
  flood_.Flood(300, 100, kFloodItemBytes);
  StartFlood(Options());
  auto delivering = RecordFlood("delivering");
  ASSERT_TRUE(AwaitState("delivering"));
  auto waiting = Open();
  ASSERT_TRUE(waiting->Send(ArmRequestOf("waiting")));
  ASSERT_TRUE(Eventually([&] { return sessions_->busy()->waiting() == 1; }));
  waiting->Cancel();
  EXPECT_TRUE(Eventually([&] { return sessions_->busy()->waiting() == 0; }));
  Drain(delivering.get());
}

// What was started goes on: the instant comes, it records, and is held.
TEST_F(NativeLossTest, WhileWaitingForTheInstant) {
  StartServer();
  auto stream = Arm();
  v1::CaptureRequest start = StartRequestOf(absl::Milliseconds(50));
  start.mutable_start()->set_start_monotonic_ns(WorkerMonotonicNs() + 1'500'000'000);
  ASSERT_TRUE(stream->Send(start));
  // It is read, and the instant may be over.
  ASSERT_TRUE(Eventually([this] { return sessions_->busy()->state() != "armed"; }));
  stream->Cancel();
  stream->Finish();
  ASSERT_TRUE(AwaitIdle());
  auto fetch = Fetch(stream->armed.capture_key(), 1);
  EXPECT_EQ(Drain(fetch.get()).code(), 0);
  EXPECT_EQ(SummaryOf(fetch->items).events(), 1U);
  EXPECT_EQ(fetch->order.front(), "started");
}

TEST_F(NativeLossTest, WhileDelivering) {
  flood_.Flood(300, 100, kFloodItemBytes);
  StartFlood(Options());
  auto stream = RecordFlood();
  ASSERT_TRUE(AwaitState("delivering"));
  stream->Cancel();
  stream->Finish();
  EXPECT_TRUE(AwaitIdle());  // held, and in nobody's way
  EXPECT_EQ(server_->open_captures(), 1U);
  auto fetch = Fetch(stream->armed.capture_key(), 1);
  Drain(fetch.get());
  EXPECT_EQ(EventsOf(fetch->items), 300U);
}

// A client that closes its side early cannot acknowledge; it still gets everything.
TEST_F(NativeLossTest, ClosedEarly) {
  flood_.Flood(100, 10, kFloodItemBytes);
  StartFlood(Options());
  auto stream = StartWholeFlood();
  stream->Close();
  sessions_->Stop("s");
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  ExpectWithoutGap(stream->items);
  EXPECT_EQ(EventsOf(stream->items), 100U);
  EXPECT_TRUE(AwaitIdle());
  EXPECT_TRUE(Eventually([&] { return server_->open_captures() == 0; }));
}

class NativeServerEndTest : public NativeFixture {
 protected:
  // Expects the server to stop in time in the state that `prepare` leads a new one to. `check`
  // follows.
  void ExpectStopInTime(const std::function<void()>& prepare, const std::function<void()>& check) {
    ExpectWithin(absl::Seconds(5), [&] {
      prepare();
      const absl::Time before = absl::Now();
      StopServer();
      const absl::Duration took = absl::Now() - before;
      if (!HasFatalFailure()) check();
      return took;
    });
  }
  static void ExpectServerEnded(CaptureStream* stream) {
    const grpc::Status status = stream->Finish();
    EXPECT_EQ(status.error_message(), kServerEndedText);
    EXPECT_TRUE(IsServerEnded(grpc::Status(status.error_code(), "", status.error_details())));
  }
  // With time for a client that is not run for some seconds.
  void StopWithPatience() {
    const absl::Time before = absl::Now();
    StopServer(absl::Minutes(2));
    EXPECT_LT(absl::Now() - before, absl::Minutes(1));
  }
};

TEST_F(NativeServerEndTest, WhileArming) {
  std::unique_ptr<CaptureStream> stream;
  int arms = 0;
  ExpectStopInTime(
      [&] {
        StartServer();
        collector_.HangIn("arm");
        stream = Open();
        ASSERT_TRUE(stream->Send(ArmRequestOf("s")));
        ASSERT_TRUE(collector_.AwaitCalls("arm", ++arms));
      },
      [&] {
        ExpectServerEnded(stream.get());
        collector_.Release();
        EXPECT_TRUE(AwaitIdle());
      });
}

TEST_F(NativeServerEndTest, WhileArmed) {
  std::unique_ptr<CaptureStream> stream;
  ExpectStopInTime(
      [&] {
        StartServer();
        stream = Arm();
      },
      [&] {
        ExpectServerEnded(stream.get());
        EXPECT_TRUE(AwaitIdle());
      });
}

TEST_F(NativeServerEndTest, WhileRecordingItIsDelivered) {
  flood_.Flood(300, 5, kFloodItemBytes);
  StartFlood(Options());
  auto stream = Start(absl::Minutes(1));
  auto client = std::async(std::launch::async, [&stream] { return Drain(stream.get()); });
  ASSERT_TRUE(Eventually([&] { return flood_.attempted() > 100; }));
  StopWithPatience();
  EXPECT_EQ(client.get().code(), 0);
  ExpectWithoutGap(stream->items);
  const v1::Summary summary = SummaryOf(stream->items);
  EXPECT_EQ(summary.ended_by(), "shutdown");
  EXPECT_TRUE(summary.truncated());
  // A collector that is not run for 0.4 s gives no account at the end of a process.
  if (!summary.collectors(0).account_unknown()) {
    EXPECT_EQ(EventsOf(stream->items), summary.events());
  }
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(NativeServerEndTest, WhileDeliveringItArrives) {
  flood_.Flood(300, 100, kFloodItemBytes);
  StartFlood(Options());
  auto stream = RecordFlood();
  ASSERT_TRUE(AwaitState("delivering"));
  auto client = std::async(std::launch::async, [&stream] { return Drain(stream.get()); });
  StopWithPatience();
  EXPECT_EQ(client.get().code(), 0);
  EXPECT_EQ(EventsOf(stream->items), 300U);
}

// A reader that does not read does not hold the server's end up.
TEST_F(NativeServerEndTest, WhileDeliveringToAStalledClient) {
  flood_.Flood(1'000, 500, kFloodItemBytes);
  std::unique_ptr<CaptureStream> stream;
  ExpectStopInTime(
      [&] {
        StartFlood(Options());
        stream = RecordFlood();
        ASSERT_TRUE(AwaitState("delivering"));
      },
      [&] {
        EXPECT_FALSE(stream->Finish().ok());
        EXPECT_TRUE(AwaitIdle());
      });
}

TEST_F(NativeServerEndTest, WhileItRecordsWithoutAStream) {
  ExpectStopInTime(
      [&] {
        StartServer();
        auto stream = Start(absl::Minutes(1));
        stream->Cancel();
        stream->Finish();
        ASSERT_TRUE(Eventually([&] { return server_->open_calls() == 0; }));
        EXPECT_TRUE(sessions_->busy().has_value());
      },
      [&] { EXPECT_TRUE(AwaitIdle()); });  // nobody could ever fetch it
}

TEST_F(NativeServerEndTest, AnotherServerMayFollow) {
  flood_.Flood(50, 50, kFloodItemBytes);
  StartFlood(Options());
  auto held = Start(absl::Milliseconds(10));
  held->Cancel();
  held->Finish();
  ASSERT_TRUE(AwaitIdle());
  StopServer();
  StartServer();
  auto stream = Start(absl::Milliseconds(10));
  EXPECT_EQ(Drain(stream.get()).code(), 0);
  EXPECT_THAT(Fetch(held->armed.capture_key(), 1)->Finish().error_message(),
              HasSubstr("was in a process that has ended"));
}

}  // namespace
}  // namespace jobscope
