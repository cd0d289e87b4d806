// SPDX-License-Identifier: Apache-2.0
//
// A stock worker that is asked to end its recording.
#include "client/tensorflow/tensorflow_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "client/rpc/call_threads.h"
#include "client/rpc/dial.h"
#include "common/clock/monotonic.h"
#include "common/net/endpoint.h"
#include "tests/client/fake_worker.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;

// A recording of an hour.
class StopOfAStockWorker : public ::testing::Test {
 protected:
  void Record(const FakeWorker& worker, absl::Duration transfer) {
    client_ = std::make_unique<TensorflowWorker>(
        Dial(ParseEndpoint(worker.address()).value(), DialOptions()), &threads_,
        ProbeTimes{absl::Milliseconds(20), absl::Minutes(2)});
    ArmCall arm;
    arm.session_id = "mine";
    WorkerEvents events;
    events.armed = [](const grpc::Status&, const v1::Armed&) {};
    events.ended = [this](const grpc::Status& status, std::unique_ptr<Delivery> delivery) {
      status_ = status;
      delivery_ = std::move(delivery);
      ended_.Notify();
    };
    client_->Arm(arm, std::move(events));
    StartCall start;
    start.start_monotonic_ns = MonotonicNow();
    start.duration = absl::Hours(1);
    start.transfer = transfer;
    client_->Start(start);
    ASSERT_TRUE(worker.AwaitRequests(1));
  }
  bool AwaitEnded() { return ended_.WaitForNotificationWithTimeout(absl::Minutes(1)); }

  absl::Notification ended_;
  grpc::Status status_;  // these two until then
  std::unique_ptr<Delivery> delivery_;
  CallThreads threads_;
  std::unique_ptr<TensorflowWorker> client_;
};

TEST_F(StopOfAStockWorker, IsRepeatedUntilItIsAnswered) {
  FakeWorker::Behavior behavior;
  behavior.native = false;
  behavior.lost_terminates = 1;
  FakeWorker worker(behavior);
  Record(worker, absl::Minutes(2));
  absl::Notification answered;
  grpc::Status answer;
  client_->Stop("mine", absl::Seconds(3), [&](const grpc::Status& status, bool) {
    answer = status;
    answered.Notify();
  });
  answered.WaitForNotification();
  EXPECT_EQ(answer.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  ASSERT_TRUE(AwaitEnded());
  EXPECT_TRUE(status_.ok()) << status_.error_message();
  EXPECT_NE(delivery_, nullptr);
  EXPECT_EQ(worker.terminates(), 2);
}

TEST_F(StopOfAStockWorker, IsGivenUpWhenTheTraceDoesNotCome) {
  FakeWorker::Behavior behavior;
  behavior.native = false;
  behavior.lost_terminates = INT_MAX;
  FakeWorker worker(behavior);
  Record(worker, absl::Milliseconds(100));
  client_->Stop("mine", absl::Milliseconds(50), [](const grpc::Status&, bool) {});
  ASSERT_TRUE(AwaitEnded());
  EXPECT_EQ(status_.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status_.error_message(), HasSubstr("did not arrive in time"));
}

}  // namespace
}  // namespace jobscope
