// SPDX-License-Identifier: Apache-2.0
//
// Tests Capture over a real socket: the order of messages, and the contents of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/clock/clock.h"
#include "common/log/log.h"
#include "server/limits.h"
#include "tests/again_if_busy.h"
#include "tests/server/native/native_fixture.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NativeCaptureTest : public NativeFixture {};

TEST_F(NativeCaptureTest, ArmStartItemsEnd) {
  StartServer();
  auto stream = Arm("mine");
  EXPECT_EQ(stream->armed.capture_key().size(), limits::kCaptureKeyBytes);
  EXPECT_EQ(stream->armed.store_bytes(), limits::kDefaultStoreBytes);
  ASSERT_EQ(stream->armed.collectors_size(), 1);
  EXPECT_EQ(stream->armed.collectors(0).name(), "fake");
  EXPECT_EQ(sessions_->busy()->state(), "armed");
  EXPECT_EQ(sessions_->busy()->session_id(), "mine");
  const uint64_t before_ns = WorkerMonotonicNs();
  ASSERT_TRUE(stream->Send(StartRequestOf(absl::Milliseconds(50))));
  const auto started = stream->Await(v1::CaptureResponse::kStarted);
  ASSERT_TRUE(started.has_value());
  EXPECT_GE(started->started().start_monotonic_ns(), before_ns);
  EXPECT_LE(started->started().start_monotonic_ns(), WorkerMonotonicNs());
  const v1::Ended ended = Drain(stream.get());
  EXPECT_EQ(ended.code(), 0);
  EXPECT_THAT(stream->order, ElementsAre("armed", "started", "items", "ended"));
  ExpectWithoutGap(stream->items);
  EXPECT_EQ(ended.last_item(), stream->last_item());
  const v1::Summary summary = SummaryOf(stream->items);
  EXPECT_EQ(summary.session_id(), "mine");
  EXPECT_EQ(summary.ended_by(), "duration");
  EXPECT_EQ(summary.events(), 1U);
  EXPECT_EQ(EventsOf(stream->items), 1U);
  EXPECT_EQ(summary.lost(), 2U);
  EXPECT_TRUE(AwaitIdle());
  EXPECT_EQ(server_->open_captures(), 0U);
}

TEST_F(NativeCaptureTest, CommandedInstantAndZeroAreKept) {
  StartServer();
  auto stream = Arm();
  v1::CaptureRequest request = StartRequestOf(absl::Milliseconds(20));
  v1::Start& start = *request.mutable_start();
  const uint64_t instant = WorkerMonotonicNs() + 100'000'000;
  start.set_start_monotonic_ns(instant);
  start.set_zero_monotonic_ns(instant - 30'000'000);
  start.set_zero_unix_ns(1'000'000'000'000'000'000);
  start.set_clock_uncertainty_ns(1234);
  start.set_clock_offset_ns(-7'000'000'000);
  ASSERT_TRUE(stream->Send(request));
  const auto started = stream->Await(v1::CaptureResponse::kStarted);
  ASSERT_TRUE(started.has_value());
  // As it was recorded: a map of ticks to time lies between.
  EXPECT_GE(started->started().start_monotonic_ns() + 100'000, instant);
  EXPECT_LT(started->started().start_monotonic_ns(), instant + 60'000'000'000);
  Drain(stream.get());
  const v1::Summary summary = SummaryOf(stream->items);
  EXPECT_EQ(summary.client_zero_unix_ns(), 1'000'000'000'000'000'000);
  EXPECT_EQ(summary.clock_uncertainty_ns(), 1234U);
  EXPECT_EQ(summary.clock_offset_ns(), -7'000'000'000);
  EXPECT_GE(summary.duration_ns(), 49'999'000U);  // from the zero on
}

TEST_F(NativeCaptureTest, ASecondClientLearnsWhoIsBusy) {
  StartServer();
  auto first = Start(absl::Minutes(1), "first");
  auto second = Open();
  ASSERT_TRUE(second->Send(ArmRequestOf("second")));
  const grpc::Status status = second->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("\"first\""), HasSubstr("127.0.0.1:"),
                                            HasSubstr("recording"), HasSubstr("ms more")));
  ASSERT_TRUE(first->SendFinish(/*abandon=*/false));
  Drain(first.get());
  EXPECT_EQ(SummaryOf(first->items).ended_by(), "request");
}

TEST_F(NativeCaptureTest, OneMayFollowTheOtherAtOnce) {
  StartServer();
  for (int i = 0; i < 20; ++i) {
    auto stream = Start(absl::Milliseconds(1));
    Drain(stream.get());
  }
}

TEST_F(NativeCaptureTest, FinishBeforeTheStartRecordsNothing) {
  StartServer();
  auto stream = Arm();
  ASSERT_TRUE(stream->SendFinish(/*abandon=*/false));
  const v1::Ended ended = Drain(stream.get());
  EXPECT_EQ(ended.code(), grpc::StatusCode::CANCELLED);
  EXPECT_THAT(ended.reason(), HasSubstr("before the start"));
  EXPECT_THAT(stream->items, IsEmpty());
  EXPECT_TRUE(AwaitIdle());
  EXPECT_EQ(server_->open_captures(), 0U);
}

TEST_F(NativeCaptureTest, ClosingBeforeTheStartIsTheSame) {
  StartServer();
  auto stream = Arm();
  stream->Close();
  const auto ended = stream->Await(v1::CaptureResponse::kEnded);
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->ended().code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(NativeCaptureTest, AbandonDropsWhatWasRecorded) {
  StartServer();
  auto stream = Start(absl::Minutes(1));
  ASSERT_TRUE(stream->SendFinish(/*abandon=*/true));
  const v1::Ended ended = Drain(stream.get());
  EXPECT_EQ(ended.code(), grpc::StatusCode::CANCELLED);
  EXPECT_THAT(ended.reason(), HasSubstr("abandoned"));
  EXPECT_THAT(stream->items, IsEmpty());
  EXPECT_TRUE(AwaitIdle());
  const grpc::Status status = Fetch(stream->armed.capture_key(), 1)->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("abandoned"));
}

TEST_F(NativeCaptureTest, TheStopMethodEndsAndDelivers) {
  StartServer();
  auto stream = Start(absl::Minutes(1), "stop-me");
  grpc::ClientContext context;
  v1::StopRequest request;
  request.set_session_id("stop-me");
  v1::StopResponse response;
  ASSERT_TRUE(native_->Stop(&context, request, &response).ok());
  EXPECT_TRUE(response.stopped());
  EXPECT_EQ(Drain(stream.get()).code(), 0);
  EXPECT_EQ(SummaryOf(stream->items).ended_by(), "request");
}

TEST_F(NativeCaptureTest, TheStopMethodEndsAnArmedOne) {
  StartServer();
  auto stream = Arm("stop-me");
  EXPECT_EQ(sessions_->Stop("stop-me"), "stop-me");
  const auto ended = stream->Await(v1::CaptureResponse::kEnded);
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->ended().code(), grpc::StatusCode::CANCELLED);
  EXPECT_THAT(ended->ended().reason(), HasSubstr("ended before its start"));
  EXPECT_THAT(stream->items, IsEmpty());
  // Too late: nobody minds.
  stream->Send(StartRequestOf(absl::Seconds(1)));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(NativeCaptureTest, TheStopMethodEndsOneThatIsBeingArmed) {
  StartServer();
  collector_.HangIn("arm");
  auto stream = Open();
  ASSERT_TRUE(stream->Send(ArmRequestOf("stop-me")));
  ASSERT_TRUE(collector_.AwaitCalls("arm", 1));
  EXPECT_EQ(sessions_->Stop("stop-me"), "stop-me");
  collector_.Release();
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_THAT(status.error_message(), HasSubstr("ended before its start"));
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(NativeCaptureTest, DumpsTheLookbackAtOnce) {
  StartServer();
  collector_.set_oldest_ticks(1);
  v1::CaptureRequest arm = ArmRequestOf("dump");
  arm.mutable_arm()->set_lookback_ns(10'000'000);
  auto stream = Arm(arm);
  EXPECT_EQ(stream->armed.lookback_ns(), 10'000'000U);
  ASSERT_TRUE(stream->Send(StartRequestOf(absl::ZeroDuration())));
  EXPECT_EQ(Drain(stream.get()).code(), 0);
  const v1::Summary summary = SummaryOf(stream->items);
  EXPECT_GE(summary.lookback_ns(), 9'900'000U);
  EXPECT_LE(summary.lookback_ns(), 10'100'000U);
}

TEST_F(NativeCaptureTest, RecordsAWindowOfSteps) {
  StartServer();
  collector_.set_watches_steps(true);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    steps_.count = 9;
    steps_.recent = {{40, absl::Milliseconds(10), absl::Milliseconds(12)},
                     {41, absl::Milliseconds(10), absl::Milliseconds(2)}};
    steps_.current = StepTiming{42, absl::Milliseconds(2), absl::ZeroDuration()};
  }
  v1::CaptureRequest arm = ArmRequestOf("steps");
  arm.mutable_arm()->set_by_steps(true);
  auto stream = Arm(arm);
  const v1::StepState& steps = stream->armed.steps();
  EXPECT_EQ(steps.begun(), 9U);
  EXPECT_EQ(steps.current(), 42);
  EXPECT_TRUE(steps.increasing());
  EXPECT_DOUBLE_EQ(steps.step_time_ms(), 10);
  EXPECT_EQ(steps.age_ns(), 2'000'000U);
  v1::CaptureRequest start = StartRequestOf(absl::Minutes(1));
  start.mutable_start()->mutable_steps()->set_first(43);
  start.mutable_start()->mutable_steps()->set_last(44);
  ASSERT_TRUE(stream->Send(start));
  ASSERT_TRUE(stream->Await(v1::CaptureResponse::kStarted).has_value());
  EXPECT_EQ(collector_.start_request().steps->first, 43);
  auto progress = stream->Await(v1::CaptureResponse::kProgress);
  ASSERT_TRUE(progress.has_value());
  EXPECT_EQ(progress->progress().window_steps(), 0U);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    steps_.count = 10;
    steps_.current->number = 43;
  }
  do {
    progress = stream->Await(v1::CaptureResponse::kProgress);
  } while (progress.has_value() && progress->progress().window_steps() == 0);
  ASSERT_TRUE(progress.has_value());
  EXPECT_EQ(progress->progress().window_steps(), 1U);
  EXPECT_EQ(progress->progress().steps().current(), 43);
  const uint64_t now = collector_.start_request().map.FromMonotonicNs(WorkerMonotonicNs());
  collector_.OpenStepWindowAt(now, now + 1000);
  EXPECT_EQ(Drain(stream.get()).code(), 0);
  EXPECT_EQ(SummaryOf(stream->items).ended_by(), "steps");
}

TEST_F(NativeCaptureTest, ProgressByStepsComesAtMostFiveTimesASecond) {
  StartServer();
  const absl::Time before = absl::Now();
  v1::CaptureRequest arm = ArmRequestOf("steps");
  arm.mutable_arm()->set_by_steps(true);
  auto stream = Arm(arm);
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(stream->Await(v1::CaptureResponse::kProgress).has_value());
  }
  EXPECT_GE(absl::Now() - before, absl::Milliseconds(1500));
  EXPECT_EQ(stream->progress.back().state(), "armed");
}

// Thousands of armed workers must leave their client time to start them.
TEST_F(NativeCaptureTest, AnArmedOneSaysEveryFourSecondsThatItIsAlive) {
  StartServer();
  const absl::Time before = absl::Now();
  auto stream = Arm();
  ASSERT_TRUE(stream->Await(v1::CaptureResponse::kProgress).has_value());
  EXPECT_GE(absl::Now() - before, absl::Milliseconds(3900));
  EXPECT_EQ(stream->progress.back().state(), "armed");
  ASSERT_TRUE(stream->Send(StartRequestOf(absl::Minutes(1))));
  do {
    ASSERT_TRUE(stream->Await(v1::CaptureResponse::kProgress).has_value());
  } while (stream->progress.back().state() != "recording");
}

TEST_F(NativeCaptureTest, ProgressComesAsOftenAsTheLimitsSay) {
  GrpcServerOptions options = Options();
  options.native_limits.armed_tick = absl::Milliseconds(10);
  options.native_limits.steps_tick = absl::Milliseconds(10);
  options.native_limits.recording_tick = absl::Milliseconds(10);
  StartServer(std::move(options));
  for (const bool by_steps : {false, true}) {
    // 20 messages in each of the two states take at least 24 s with the default intervals.
    ExpectWithin(absl::Seconds(5), [&] {
      const absl::Time before = absl::Now();
      v1::CaptureRequest arm = ArmRequestOf("s");
      arm.mutable_arm()->set_by_steps(by_steps);
      auto stream = Arm(arm);
      const auto await_progress = [&stream](const std::string& state) {
        for (int seen = 0; seen < 20;) {
          const auto response = stream->Await(v1::CaptureResponse::kProgress);
          if (!response.has_value()) return false;
          if (response->progress().state() == state) ++seen;
        }
        return true;
      };
      EXPECT_TRUE(await_progress("armed"));
      EXPECT_TRUE(stream->Send(StartRequestOf(absl::Minutes(1))));
      EXPECT_TRUE(await_progress("recording"));
      const absl::Duration took = absl::Now() - before;
      EXPECT_TRUE(stream->SendFinish(/*abandon=*/true));
      stream->Finish();
      EXPECT_TRUE(AwaitIdle());
      return took;
    });
  }
}

TEST_F(NativeCaptureTest, AnArmedOneIsNotKeptForEver) {
  GrpcServerOptions options = Options();
  options.native_limits.armed = absl::Milliseconds(300);
  options.native_limits.armed_tick = absl::Milliseconds(50);
  StartServer(std::move(options));
  auto stream = Arm();
  const auto ended = stream->Await(v1::CaptureResponse::kEnded);
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->ended().code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(ended->ended().reason(), HasSubstr("armed for 300ms"));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(NativeCaptureTest, ACollectorThatFailsIsNamedWhenArmed) {
  StartServer();
  collector_.FailIn("arm", absl::UnavailableError("no device"));
  auto stream = Arm();
  ASSERT_EQ(stream->armed.collectors_size(), 1);
  EXPECT_EQ(stream->armed.collectors(0).state(), "failed");
  EXPECT_THAT(stream->armed.collectors(0).reason(), HasSubstr("no device"));
  ASSERT_TRUE(stream->Send(StartRequestOf(absl::Milliseconds(1))));
  const v1::Ended ended = Drain(stream.get());
  EXPECT_EQ(ended.last_item(), stream->last_item());
}

TEST_F(NativeCaptureTest, AnItemThatIsTooLargeIsSentEmptyAndReported) {
  flood_.set_raw_plane_bytes(limits::kMaxItemBytes + 1);
  StartFlood(Options());
  auto stream = Start(absl::Milliseconds(1));
  const v1::Ended ended = Drain(stream.get());
  EXPECT_EQ(ended.code(), 0);
  EXPECT_THAT(ended.reason(), HasSubstr("1 items are larger than"));
  ExpectWithoutGap(stream->items);
  EXPECT_EQ(ended.last_item(), stream->last_item());
}

TEST_F(NativeCaptureTest, LargeItemsTravelWhole) {
  constexpr size_t kBytes = 3 << 20;  // more than one message's worth
  flood_.set_raw_plane_bytes(kBytes);
  flood_.Flood(100, 10, 60'000);
  StartFlood(Options());
  auto stream = Start(absl::Milliseconds(100));
  EXPECT_EQ(Drain(stream.get()).code(), 0);
  ExpectWithoutGap(stream->items);
  size_t raw = 0;
  for (const v1::Item& item : stream->items) raw += item.raw_plane().plane().size();
  EXPECT_EQ(raw, kBytes);
  EXPECT_EQ(EventsOf(stream->items), SummaryOf(stream->items).events());
}

// A recording of little wakes neither gRPC's threads nor the client for each item.
TEST_F(NativeCaptureTest, FewItemsTravelTogether) {
  flood_.Flood(/*segments=*/300, /*per_drain=*/1, /*segment_bytes=*/8);
  StartFlood(Options());
  const absl::Time begin = absl::Now();
  auto stream = Start(absl::Hours(1));
  const auto ender = std::async(std::launch::async, [this] {
    EXPECT_TRUE(Eventually([this] { return flood_.attempted() == flood_.total(); }));
    EXPECT_EQ(sessions_->Stop("s"), "s");
  });
  int messages = 0;
  while (const auto response = stream->Next()) {
    if (response->has_items()) {
      ++messages;
      ASSERT_TRUE(stream->Ack(stream->last_item())) << "what is heard of the client sends none";
    }
    if (response->has_ended()) break;
  }
  ender.wait();
  // Two a second, and the rest behind them.
  EXPECT_LE(messages,
            7 + 2 * absl::ToInt64Seconds(absl::Ceil(absl::Now() - begin, absl::Seconds(1))));
  ExpectWithoutGap(stream->items);
  EXPECT_EQ(EventsOf(stream->items), flood_.total());
}

// A client behind a slow link sees nothing of a message before its last byte.
TEST_F(NativeCaptureTest, MessagesAreSmall) {
  constexpr size_t kBytes = (3 << 20) + 17;
  flood_.set_raw_plane_bytes(kBytes);
  flood_.Flood(100, 10, 20'000);
  StartFlood(Options());
  v1::CaptureRequest arm = ArmRequestOf("s");
  arm.mutable_arm()->set_chunks(true);
  auto stream = Arm(arm);
  ASSERT_TRUE(stream->Send(StartRequestOf(absl::Milliseconds(100))));
  EXPECT_EQ(Drain(stream.get()).code(), 0);
  EXPECT_LE(stream->largest_message_bytes, limits::kMaxMessageItemBytes + 64);
  std::string body;
  for (const v1::Chunk& chunk : stream->chunks) {
    EXPECT_EQ(chunk.offset(), body.size());
    EXPECT_EQ(chunk.kind(), static_cast<uint32_t>(xspace::ItemKind::kRawPlane));
    EXPECT_EQ(chunk.number(), stream->chunks.front().number());
    body += chunk.data();
    EXPECT_LE(body.size(), chunk.body_bytes());
  }
  v1::RawPlane raw;
  ASSERT_TRUE(raw.ParseFromString(body));
  EXPECT_EQ(raw.plane().size(), kBytes);
  // All others came whole, before it and behind it.
  std::vector<uint64_t> numbers{stream->chunks.front().number()};
  for (const v1::Item& item : stream->items) numbers.push_back(item.number());
  std::sort(numbers.begin(), numbers.end());
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], i + 1);
}

TEST_F(NativeCaptureTest, EachStreamLeavesOneAuditLine) {
  StartServer();
  ::testing::internal::CaptureStderr();
  auto stream = Start(absl::Milliseconds(1), "audited");
  Drain(stream.get());
  ASSERT_TRUE(Eventually([&] { return server_->open_calls() == 0; }));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, AllOf(HasSubstr(" audit: method=\"jobscope.v1.Profiler/Capture\""),
                         HasSubstr("peer=\"127.0.0.1:"),
                         HasSubstr(R"(asked="session \"audited\", levels 2/0/0)"),
                         HasSubstr("status=OK outcome="), HasSubstr(" items")));
}

// A newer client may say more than this worker understands.
TEST_F(NativeCaptureTest, RequestsOfUnknownKindsAreIgnored) {
  StartServer();
  v1::CaptureRequest unknown;
  ASSERT_TRUE(unknown.MergeFromString(std::string("\xfa\x03\x05later", 8)));  // field 63
  v1::FetchRequest unknown_fetch;
  ASSERT_TRUE(unknown_fetch.MergeFromString(std::string("\xfa\x03\x05later", 8)));
  ASSERT_EQ(unknown.message_case(), v1::CaptureRequest::MESSAGE_NOT_SET);
  auto stream = Open();
  ASSERT_TRUE(stream->Send(unknown));
  ASSERT_TRUE(stream->Send(ArmRequestOf("s")));
  ASSERT_TRUE(stream->Await(v1::CaptureResponse::kArmed).has_value());
  ASSERT_TRUE(stream->Send(unknown));
  ASSERT_TRUE(stream->Send(StartRequestOf(absl::Milliseconds(1))));
  ASSERT_TRUE(stream->Send(unknown));
  EXPECT_EQ(Drain(stream.get()).code(), 0);
  EXPECT_GT(stream->last_item(), 0U);
  EXPECT_THAT(Describe().features(), ::testing::Contains("ignores_unknown"));
}

}  // namespace
}  // namespace jobscope
