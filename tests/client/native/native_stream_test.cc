// SPDX-License-Identifier: Apache-2.0
#include "client/native/native_stream.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "client/native/wire/native_messages.h"
#include "client/rpc/call_threads.h"
#include "tests/client/fake_native_worker.h"

namespace jobscope {
namespace {

TEST(NativeStreamTest, DoneIsReportedAfterTheMessageThatIsBeingReported) {
  FakeNativeWorker::Script script;
  script.capture = [](FakeCapture* capture) {
    capture->SendArmed();
    capture->Hang();
    return grpc::Status::OK;
  };
  const FakeNativeWorker fake(script);
  const auto channel = grpc::CreateChannel(fake.address(), grpc::InsecureChannelCredentials());
  CallThreads threads;
  absl::Notification reporting;
  absl::Notification cancelled;
  absl::Notification done;
  bool done_while_reporting = false;
  grpc::Status status;
  NativeStream::Events events;
  events.message = [&](grpc::ByteBuffer*) {
    reporting.Notify();
    cancelled.WaitForNotification();
    // Another thread could report it now: CallThreads has one for each of the cores.
    done_while_reporting = done.WaitForNotificationWithTimeout(absl::Milliseconds(100));
  };
  events.done = [&](const grpc::Status& end) {
    status = end;
    done.Notify();
  };
  const std::shared_ptr<NativeStream> stream = NativeStream::Start(
      channel, kCaptureMethod, absl::InfiniteDuration(), &threads, std::move(events));
  stream->Read();
  reporting.WaitForNotification();
  stream->Cancel();
  cancelled.Notify();
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(30)));
  EXPECT_FALSE(done_while_reporting);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
}

}  // namespace
}  // namespace jobscope
