// SPDX-License-Identifier: Apache-2.0
//
// Tests captures without faults, and every answer that a worker may give to them.
#include "client/native/native_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tensorflow/xplane.pb.h"
#include "tests/client/fake_native_worker.h"
#include "tests/client/native/native_fixture.h"

namespace jobscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A CaptureResponse of a newer worker: field 63, a message of three bytes.
const std::string kUnknownResponse("\xfa\x03\x03\x08\x96\x01");

TEST_F(NativeWorkerTest, BringsAWholeTrace) {
  const std::vector<FakeItem> items = MakeItems(3, 5, 40);
  FakeNativeWorker::Script script;
  script.capture = [&items](FakeCapture* capture) {
    return FakeNativeWorker::SendAll(capture, items);
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  EXPECT_EQ(log_->key(), "key 1");
  EXPECT_TRUE(log_->AwaitEnded().ok());
  EXPECT_EQ(log_->started(), 1);
  EXPECT_TRUE(log_->AwaitProgress(1));
  EXPECT_THAT(log_->notes(), IsEmpty());

  const WorkerOutcome outcome = Write();
  EXPECT_EQ(outcome.kind, Outcome::kOk);
  EXPECT_EQ(outcome.phase, Phase::kDone);
  EXPECT_EQ(outcome.reason, "");
  EXPECT_EQ(account_.protocol, Protocol::kNative);
  EXPECT_EQ(account_.aligned, true);
  EXPECT_EQ(account_.events, 600u);
  EXPECT_EQ(account_.lost, 0u);
  EXPECT_EQ(account_.host, "node1");
  EXPECT_EQ(account_.rank, 3);
  EXPECT_EQ(account_.clock_offset_ns, 0);
  EXPECT_TRUE(account_.clock_uncertainty_ns.has_value());
  EXPECT_THAT(account_.warnings, IsEmpty());
  ASSERT_EQ(account_.files.size(), 1u);
  EXPECT_EQ(account_.files[0].path, "worker.xplane.pb");
  EXPECT_EQ(account_.files[0].events, 600u);
  const std::string file = File();
  EXPECT_EQ(account_.files[0].bytes, file.size());
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(file));
  EXPECT_THAT(space.hostnames(), ElementsAre("worker"));
  EXPECT_EQ(space.planes(0).lines_size(), 3);
  // Nothing but the trace is in the run.
  EXPECT_THAT(List(run_->path()), ElementsAre("worker.xplane.pb"));
}

TEST_F(NativeWorkerTest, TellsTheWorkerWhatAndWhenOnItsOwnClock) {
  v1::Arm arm;
  v1::Start start;
  FakeNativeWorker::Script script;
  script.clock_offset_ns = -7'000'000'000;
  script.realtime_offset_ns = 5'000'000'000;
  script.capture = [&arm, &start](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture, &start, &arm);
    capture->SendEnded(0, grpc::StatusCode::INTERNAL, "enough");
    capture->Hang();
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  Connect(fake.address());
  ArmCall arm_call;
  arm_call.session_id = "run";
  arm_call.recording.host_tracer_level = 3;
  arm_call.recording.python_tracer_level = 1;
  arm_call.lookback = absl::Milliseconds(1500);
  arm_call.by_steps = true;
  arm_call.timeout = absl::Seconds(20);
  worker_->Arm(arm_call, NativeLog::Events(log_));
  ASSERT_TRUE(log_->AwaitArmed().ok());
  const auto clock = Sync();
  ASSERT_TRUE(clock.has_value());
  const auto error = static_cast<uint64_t>(std::abs(clock->offset_ns + 7'000'000'000));
  EXPECT_LE(error, clock->uncertainty_ns);
  const int64_t realtime_error = std::abs(clock->realtime_offset_ns - 5'000'000'000);
  // REALTIME is not read at the same moment as MONOTONIC in this fake.
  EXPECT_LE(static_cast<uint64_t>(realtime_error), clock->uncertainty_ns + 1'000'000);
  EXPECT_LE(fake.pings(), ClockSync::kMaxExchanges);

  StartCall call = MakeStart(absl::Seconds(3));
  call.clock = clock;
  call.zero_monotonic_ns = call.start_monotonic_ns - 1'500'000'000;
  call.zero_unix_ns -= 1'500'000'000;
  call.steps.emplace();
  call.steps->set_first(10);
  call.steps->set_last(12);
  worker_->Start(call);
  const grpc::Status ended = log_->AwaitEnded();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(ended.error_message(), "enough");
  EXPECT_EQ(log_->TakeDelivery(), nullptr);

  EXPECT_EQ(arm.session_id(), "run");
  EXPECT_EQ(arm.host_tracer_level(), 3u);
  EXPECT_EQ(arm.python_tracer_level(), 1u);
  EXPECT_EQ(arm.lookback_ns(), 1'500'000'000u);
  EXPECT_TRUE(arm.by_steps());
  EXPECT_EQ(static_cast<int64_t>(start.start_monotonic_ns()),
            static_cast<int64_t>(call.start_monotonic_ns) + clock->offset_ns);
  EXPECT_EQ(start.start_monotonic_ns() - start.zero_monotonic_ns(), 1'500'000'000u);
  EXPECT_EQ(start.zero_unix_ns(), call.zero_unix_ns);
  EXPECT_EQ(start.clock_uncertainty_ns(), UncertaintyAt(*clock, call.start_monotonic_ns));
  EXPECT_EQ(start.clock_offset_ns(), clock->realtime_offset_ns);
  EXPECT_EQ(start.duration_ns(), 3'000'000'000u);
  EXPECT_EQ(start.steps().first(), 10);
  EXPECT_EQ(start.steps().last(), 12);
}

TEST_F(NativeWorkerTest, MessagesOfANewerWorkerAreSkipped) {
  const std::vector<FakeItem> items = MakeItems(3, 5, 40);
  FakeNativeWorker::Script script;
  script.capture = [&items](FakeCapture* capture) {
    v1::CaptureRequest request;
    capture->Read(&request);
    capture->SendRaw(kUnknownResponse);
    capture->SendArmed();
    capture->SendRaw(kUnknownResponse);
    capture->Read(&request);
    capture->SendStarted();
    for (size_t i = 0; i < items.size(); ++i) {
      capture->SendRaw(kUnknownResponse);
      capture->SendItems(items, i, i + 1);
    }
    capture->SendRaw(kUnknownResponse);
    capture->SendEnded(items.size());
    capture->AwaitAck(items.size());
    return grpc::Status::OK;
  };
  script.fetch = [](FakeFetch* /*fetch*/, int /*number*/) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no resumption is expected");
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  EXPECT_TRUE(log_->AwaitEnded().ok());
  const WorkerOutcome outcome = Write();
  EXPECT_EQ(outcome.kind, Outcome::kOk) << outcome.reason;
  EXPECT_EQ(account_.events, 600u);
  EXPECT_EQ(fake.fetches(), 0);
  EXPECT_THAT(log_->notes(), IsEmpty());
}

TEST_F(NativeWorkerTest, WithoutAKnownClockTheWorkerStartsAtOnce) {
  const std::vector<FakeItem> items = MakeItems(1, 1, 5);
  v1::Start start;
  FakeNativeWorker::Script script;
  script.capture = [&start, &items](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture, &start);
    capture->SendItems(items);
    capture->SendEnded(items.size());
    capture->Hang();
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  Connect(fake.address());
  Arm();
  ASSERT_TRUE(log_->AwaitArmed().ok());
  StartCall call = MakeStart(absl::Seconds(1));
  call.clock.reset();
  worker_->Start(call);
  EXPECT_TRUE(log_->AwaitEnded().ok());
  EXPECT_EQ(start.start_monotonic_ns(), 0u);
  EXPECT_EQ(start.zero_monotonic_ns(), 0u);
  EXPECT_EQ(start.duration_ns(), 1'000'000'000u);
  EXPECT_EQ(Write().kind, Outcome::kOk);
  EXPECT_EQ(account_.aligned, false);
  EXPECT_FALSE(account_.clock_offset_ns.has_value());
}

TEST_F(NativeWorkerTest, ARefusalToArmComesAsItIs) {
  FakeNativeWorker::Script script;
  script.capture = [](FakeCapture* capture) {
    v1::CaptureRequest request;
    capture->Read(&request);
    return grpc::Status(grpc::StatusCode::ALREADY_EXISTS, "held by alice for 3 s");
  };
  FakeNativeWorker fake(script);
  Connect(fake.address());
  Arm();
  const grpc::Status armed = log_->AwaitArmed();
  EXPECT_EQ(armed.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(armed.error_message(), "held by alice for 3 s");
}

TEST_F(NativeWorkerTest, AnEndInsteadOfArmedIsARefusal) {
  FakeNativeWorker::Script script;
  script.capture = [](FakeCapture* capture) {
    v1::CaptureRequest request;
    capture->Read(&request);
    capture->SendEnded(0, grpc::StatusCode::FAILED_PRECONDITION, "every collector failed");
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  Connect(fake.address());
  Arm();
  EXPECT_EQ(log_->AwaitArmed().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(NativeWorkerTest, AWorkerThatDoesNotArmInTimeIsGivenUp) {
  FakeNativeWorker::Script script;
  script.capture = [](FakeCapture* capture) {
    capture->Hang();
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  Connect(fake.address());
  const absl::Time begin = absl::Now();
  Arm(absl::Milliseconds(200));
  EXPECT_EQ(log_->AwaitArmed().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_LT(absl::Now() - begin, absl::Seconds(15));
}

TEST_F(NativeWorkerTest, NobodyThereIsUnavailable) {
  std::string address;
  {
    FakeNativeWorker fake({});
    address = fake.address();
  }
  Connect(address);
  Arm();
  EXPECT_EQ(log_->AwaitArmed().error_code(), grpc::StatusCode::UNAVAILABLE);
  grpc::Status status;
  EXPECT_FALSE(Sync(&status).has_value());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(NativeWorkerTest, AStreamThatBreaksBeforeTheStartIsNotTakenUpAgain) {
  FakeNativeWorker::Script script;
  script.capture = [](FakeCapture* capture) {
    v1::CaptureRequest request;
    capture->Read(&request);
    capture->SendArmed();
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the process is ending");
  };
  FakeNativeWorker fake(script);
  Connect(fake.address());
  Arm();
  ASSERT_TRUE(log_->AwaitArmed().ok());
  const grpc::Status ended = log_->AwaitEnded();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ended.error_message(), "the process is ending");
  EXPECT_EQ(log_->TakeDelivery(), nullptr);
  worker_->Start(MakeStart(absl::Seconds(1)));
  EXPECT_EQ(fake.fetches(), 0);
}

TEST_F(NativeWorkerTest, SilenceBeforeTheStartEndsIt) {
  options_.timeouts.stall = absl::Milliseconds(200);
  FakeNativeWorker::Script script;
  script.capture = [](FakeCapture* capture) {
    v1::CaptureRequest request;
    capture->Read(&request);
    capture->SendArmed();
    capture->Hang();
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  Connect(fake.address());
  Arm();
  ASSERT_TRUE(log_->AwaitArmed().ok());
  const grpc::Status ended = log_->AwaitEnded();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(ended.error_message(),
              HasSubstr("nothing arrived for 200ms, and the worker could not be asked"));
}

TEST_F(NativeWorkerTest, AcknowledgesAlsoWhenNothingMoreComes) {
  const std::vector<FakeItem> items = MakeItems(1, 4, 5);
  bool acknowledged = false;
  FakeNativeWorker::Script script;
  script.capture = [&items, &acknowledged](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture);
    capture->SendItems(items, 0, 4);
    // A few bytes, and no end in sight: after 100 ms.
    acknowledged = capture->AwaitAck(4);
    capture->SendItems(items, 4);
    capture->SendEnded(items.size());
    capture->AwaitAck(items.size());
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  EXPECT_TRUE(log_->AwaitEnded().ok());
  EXPECT_TRUE(acknowledged);
  EXPECT_EQ(Write().kind, Outcome::kOk);
}

TEST_F(NativeWorkerTest, CancelTellsTheWorkerAndEndsSoon) {
  bool abandon = false;
  absl::Notification reported;
  FakeNativeWorker::Script script;
  script.capture = [&abandon, &reported](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture);
    capture->SendStarted();
    capture->AwaitFinish(&abandon);
    reported.Notify();
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  ASSERT_TRUE(log_->AwaitStarted());
  worker_->Cancel();
  EXPECT_EQ(log_->AwaitEnded().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(log_->TakeDelivery(), nullptr);
  reported.WaitForNotification();
  EXPECT_TRUE(abandon);
}

TEST_F(NativeWorkerTest, CancelWhileArming) {
  absl::Notification asked;
  FakeNativeWorker::Script script;
  script.capture = [&asked](FakeCapture* capture) {
    v1::CaptureRequest request;
    capture->Read(&request);
    asked.Notify();
    capture->Hang();
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  Connect(fake.address());
  Arm();
  asked.WaitForNotification();
  worker_->Cancel();
  EXPECT_EQ(log_->AwaitArmed().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(NativeWorkerTest, MayBeDestroyedInEveryPhase) {
  const std::vector<FakeItem> items = MakeItems(1, 10, 10);
  FakeNativeWorker::Script script;
  script.capture = [&items](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture);
    capture->SendStarted();
    capture->SendItems(items, 0, 5);
    capture->Hang();
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  for (int phase = 0; phase < 6; ++phase) {
    Connect(fake.address());
    if (phase >= 1) Arm();
    if (phase >= 2) {
      ASSERT_TRUE(log_->AwaitArmed().ok());
    }
    if (phase >= 3) {
      worker_->SyncClock(absl::Seconds(5),
                         [](const grpc::Status&, std::optional<ClockEstimate>) {});
    }
    if (phase >= 4) worker_->Start(MakeStart(absl::Seconds(2)));
    if (phase >= 5) {
      ASSERT_TRUE(log_->AwaitStarted());
    }
    worker_.reset();
    if (phase >= 2) {
      EXPECT_EQ(log_->AwaitEnded().error_code(), grpc::StatusCode::CANCELLED);
    }
    // The worker may have answered before the client was destroyed.
    if (phase == 1 && log_->AwaitArmed().ok()) {
      EXPECT_EQ(log_->AwaitEnded().error_code(), grpc::StatusCode::CANCELLED);
    }
  }
}

TEST_F(NativeWorkerTest, PingsThatMakeNoSenseAreAnError) {
  FakeNativeWorker::Script script;
  script.pong = [](const v1::ClockPing&) { return std::string("\xff\xff\xff", 3); };
  FakeNativeWorker garbage(script);
  Connect(garbage.address());
  grpc::Status status;
  EXPECT_FALSE(Sync(&status).has_value());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  worker_.reset();

  script.pong = [](const v1::ClockPing& ping) {
    v1::ClockPong pong;
    pong.set_number(ping.number());
    pong.set_received_monotonic_ns(1);
    pong.set_sent_monotonic_ns(UINT64_MAX);
    return pong.SerializeAsString();
  };
  FakeNativeWorker absurd(script);
  Connect(absurd.address());
  EXPECT_FALSE(Sync(&status).has_value());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(absurd.pings(), ClockSync::kMaxExchanges);
}

}  // namespace
}  // namespace jobscope
