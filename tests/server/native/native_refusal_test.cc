// SPDX-License-Identifier: Apache-2.0
//
// Tests the requests that a native worker refuses, over a real socket.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/limits.h"
#include "tests/server/native/native_fixture.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;

class NativeRefusalTest : public NativeFixture {
 protected:
  // The status of a stream on which `requests` were sent, after `armed` if `armed`.
  grpc::Status StatusOf(const std::vector<v1::CaptureRequest>& requests, bool armed = true) {
    auto stream = armed ? Arm("refused") : Open();
    for (const v1::CaptureRequest& request : requests) stream->Send(request);
    return stream->Finish();
  }
  void ExpectRefused(const grpc::Status& status, grpc::StatusCode code, const std::string& text) {
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(text));
    EXPECT_TRUE(AwaitIdle());
    EXPECT_TRUE(Eventually([&] { return server_->open_captures() == 0; }));
  }
};

// The operator's ceilings, in both protocols.
TEST_F(NativeRefusalTest, LongerThanTheCeiling) {
  GrpcServerOptions options = Options();
  options.ceilings.duration_ms = 50;
  StartServer(std::move(options));
  constexpr auto kDenied = grpc::StatusCode::PERMISSION_DENIED;
  EXPECT_EQ(Describe().limits().max_duration_ms(), 50u);
  EXPECT_EQ(Describe().limits().max_lookback_ms(), 50u);
  ExpectRefused(StatusOf({StartRequestOf(absl::Milliseconds(60))}), kDenied, "ceiling of 50 ms");
  v1::CaptureRequest lookback = ArmRequestOf("lookback");
  lookback.mutable_arm()->set_lookback_ns(60'000'000);
  ExpectRefused(StatusOf({lookback}, false), kDenied, "ceiling of 50 ms");
  ExpectRefused(Profile(Request(60)).status, kDenied, "ceiling of 50");
  EXPECT_TRUE(Profile(Request(50)).status.ok());
  Drain(Start(absl::Milliseconds(50)).get());
}

TEST_F(NativeRefusalTest, MoreCapturesThanTheCeiling) {
  GrpcServerOptions options = Options();
  options.ceilings.captures_per_minute = 2;
  StartServer(std::move(options));
  constexpr auto kExhausted = grpc::StatusCode::RESOURCE_EXHAUSTED;
  // Either protocol takes from the same number.
  EXPECT_TRUE(Profile(Request(1)).status.ok());
  Drain(Start(absl::Milliseconds(1)).get());
  EXPECT_TRUE(AwaitIdle());
  ExpectRefused(Profile(Request(1)).status, kExhausted, "2 captures per minute");
  ExpectRefused(StatusOf({ArmRequestOf("third")}, false), kExhausted, "2 captures per minute");
}

// A client that retries while another one records would otherwise use up its own next capture.
TEST_F(NativeRefusalTest, ARefusalOfABusyWorkerIsNoCapture) {
  GrpcServerOptions options = Options();
  options.ceilings.captures_per_minute = 2;
  StartServer(std::move(options));
  auto first = Start(absl::Minutes(10), "first");
  for (int i = 0; i < 3; ++i) {
    const grpc::Status busy = StatusOf({ArmRequestOf("busy")}, false);
    EXPECT_EQ(busy.error_code(), grpc::StatusCode::ALREADY_EXISTS) << busy.error_message();
  }
  ASSERT_TRUE(first->SendFinish(/*abandon=*/false));
  Drain(first.get());
  EXPECT_TRUE(AwaitIdle());
  auto second = Arm("second");
  ASSERT_TRUE(second->Send(StartRequestOf(absl::Milliseconds(1))));
  EXPECT_EQ(Drain(second.get()).code(), 0);
}

TEST_F(NativeRefusalTest, MoreBytesThanTheCeilingEndTheRecording) {
  GrpcServerOptions options = Options();
  options.ceilings.trace_bytes = 2 << 20;
  StartFlood(std::move(options));
  flood_.Flood(1'000, 100, 20'000);
  const Reply reply = Profile(Request(600'000));
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(ServiceFixture::SummaryOf(Trace(reply)).ended_by(), "max_trace_bytes");
  auto stream = Start(absl::Minutes(10));
  Drain(stream.get());
  EXPECT_EQ(SummaryOf(stream->items).ended_by(), "max_trace_bytes");
}

v1::CaptureRequest AckOf(uint64_t through) {
  v1::CaptureRequest request;
  request.mutable_ack()->set_through(through);
  return request;
}

TEST_F(NativeRefusalTest, MessagesOutOfOrder) {
  StartServer();
  constexpr auto kOrder = grpc::StatusCode::FAILED_PRECONDITION;
  const v1::CaptureRequest start = StartRequestOf(absl::Minutes(1));
  v1::CaptureRequest finish;
  finish.mutable_finish();
  ExpectRefused(StatusOf({start}, false), kOrder, "`start` came before `armed`");
  ExpectRefused(StatusOf({AckOf(1)}, false), kOrder, "`ack` came before `start`");
  ExpectRefused(StatusOf({finish}, false), kOrder, "`finish` came before `arm`");
  ExpectRefused(StatusOf({ArmRequestOf("again")}), kOrder, "`arm` came twice");
  ExpectRefused(StatusOf({AckOf(0)}), kOrder, "`ack` came before `start`");
  ExpectRefused(StatusOf({start, start}), kOrder, "`start` came twice");
  auto stream = Open();
  stream->Close();
  ExpectRefused(stream->Finish(), kOrder, "closed before its first message, `arm`");
}

TEST_F(NativeRefusalTest, StartBeforeArmed) {
  StartServer();
  collector_.HangIn("arm");
  auto stream = Open();
  ASSERT_TRUE(stream->Send(ArmRequestOf("s")));
  ASSERT_TRUE(collector_.AwaitCalls("arm", 1));
  ASSERT_TRUE(stream->Send(StartRequestOf(absl::Seconds(1))));
  const grpc::Status status = stream->Finish();
  collector_.Release();
  ExpectRefused(status, grpc::StatusCode::FAILED_PRECONDITION, "`start` came before `armed`");
}

TEST_F(NativeRefusalTest, ValuesOutOfRange) {
  StartServer();
  constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
  v1::CaptureRequest arm = ArmRequestOf(std::string(257, 'x'));
  ExpectRefused(StatusOf({arm}, false), kInvalid, "arm.session_id = 257 bytes");
  arm = ArmRequestOf("s");
  arm.mutable_arm()->set_host_tracer_level(4);
  ExpectRefused(StatusOf({arm}, false), kInvalid, "arm.host_tracer_level = 4 is out of range");
  const v1::CaptureRequest start = StartRequestOf(absl::Hours(2));
  ExpectRefused(StatusOf({start}), kInvalid, "start.duration_ns = 7200000000000 is out of range");
  ExpectRefused(StatusOf({StartRequestOf(absl::ZeroDuration())}), kInvalid,
                "start.duration_ns = 0");
  ExpectRefused(StatusOf({StartRequestOf(absl::Minutes(1)), AckOf(1'000)}), kInvalid,
                "ack.through = 1000 is out of range: at most ");
}

// Bytes that are no message, by a client that has no messages.
TEST_F(NativeRefusalTest, Garbage) {
  StartServer();
  for (const char* method : {"Capture", "Fetch", "SyncClock"}) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    auto call = stub.PrepareCall(&context, absl::StrCat("/jobscope.v1.Profiler/", method), &queue);
    void* tag = nullptr;
    bool ok = false;
    call->StartCall(nullptr);
    ASSERT_TRUE(queue.Next(&tag, &ok));
    const grpc::Slice slice("\xff\xff\xff\xff garbage");
    call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    ASSERT_TRUE(queue.Next(&tag, &ok));
    grpc::Status status;
    call->Finish(&status, nullptr);
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
    EXPECT_THAT(status.error_message(), HasSubstr("is not a jobscope.v1."));
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) {
    }
  }
  auto stream = Start(absl::Milliseconds(1));
  Drain(stream.get());
}

TEST_F(NativeRefusalTest, FetchOfWhatIsNotThere) {
  StartServer();
  auto unknown = Fetch(std::string(limits::kCaptureKeyBytes, '0'), 1)->Finish();
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(unknown.error_message(), HasSubstr("it never existed"));
  EXPECT_EQ(Fetch("short", 1)->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  auto armed = Arm();
  auto status = Fetch(armed->armed.capture_key(), 1)->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("has not been started"));
  status = Fetch(armed->armed.capture_key(), 0)->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  // None of this has touched the capture.
  ASSERT_TRUE(armed->Send(StartRequestOf(absl::Milliseconds(1))));
  EXPECT_EQ(Drain(armed.get()).code(), 0);
}

}  // namespace
}  // namespace jobscope
