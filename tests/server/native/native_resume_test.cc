// SPDX-License-Identifier: Apache-2.0
//
// The outcomes of a capture whose stream is lost or taken over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "tests/server/native/native_fixture.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class NativeResumeTest : public NativeFixture {
 protected:
  // A capture of `segments`, cut off by its client after it has read that many items, of which it
  // has acknowledged `acknowledged`; it is over.
  std::unique_ptr<CaptureStream> CutCapture(uint64_t acknowledged, uint64_t read,
                                            const std::string& session_id = "cut") {
    auto stream = StartWholeFlood(session_id);
    while (stream->items.size() < read) {
      if (!stream->Await(v1::CaptureResponse::kItems).has_value()) break;
    }
    EXPECT_TRUE(stream->Ack(acknowledged));  // the cut may overtake it
    stream->Cancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_EQ(sessions_->Stop(session_id), session_id);
    EXPECT_TRUE(AwaitIdle());
    return stream;
  }
  static std::vector<std::string> Bodies(const std::vector<v1::Item>& items) {
    std::vector<std::string> bodies;
    for (const v1::Item& item : items) {
      if (!item.has_summary()) bodies.push_back(item.SerializeAsString());
    }
    return bodies;
  }
};

TEST_F(NativeResumeTest, CutAndFetchedIsTheSameAsUncut) {
  flood_.Flood(300, 20, kFloodItemBytes);
  StartFlood(Options());
  auto uncut = RecordFlood();
  Drain(uncut.get());
  ASSERT_EQ(EventsOf(uncut->items), 300U);
  for (const uint64_t read : {2, 30, 290}) {
    auto cut = CutCapture(read - 1, read);
    std::vector<v1::Item> items = cut->items;
    auto fetch = Fetch(cut->armed.capture_key(), items.size() + 1);
    const v1::Ended ended = Drain(fetch.get());
    EXPECT_EQ(ended.code(), 0);
    items.insert(items.end(), fetch->items.begin(), fetch->items.end());
    ExpectWithoutGap(items);
    EXPECT_EQ(items.size(), ended.last_item());
    EXPECT_EQ(Bodies(items), Bodies(uncut->items));
    EXPECT_EQ(SummaryOf(items).events(), 300U);
    EXPECT_EQ(server_->open_captures(), 0U);
  }
}

TEST_F(NativeResumeTest, FetchOfWhatWasReleasedSaysFromWhereOn) {
  flood_.Flood(50, 50, kFloodItemBytes);
  StartFlood(Options());
  auto cut = CutCapture(10, 20);
  const std::string& key = cut->armed.capture_key();
  auto first = Fetch(key, 11);
  ASSERT_TRUE(first->Await(v1::CaptureResponse::kItems).has_value());
  const grpc::Status released = Fetch(key, 10)->Finish();
  EXPECT_EQ(released.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(released.error_message(), HasSubstr("items are held from number 11 on"));
  const grpc::Status beyond = Fetch(key, 1'000)->Finish();
  EXPECT_EQ(beyond.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(beyond.error_message(), HasSubstr("resume.next_item = 1000 is out of range: 11 to "));
  auto fetch = Fetch(key, 11);
  Drain(fetch.get());
  ExpectWithoutGap(fetch->items, 11);
}

TEST_F(NativeResumeTest, TheRecordingGoesOnWithoutAStream) {
  flood_.Flood(1'000'000, 1, 1'000);
  StartFlood(Options());
  auto stream = Start(absl::Hours(1), "goes-on");
  ASSERT_TRUE(stream->Await(v1::CaptureResponse::kItems).has_value());
  stream->Cancel();
  stream->Finish();
  const uint64_t before = flood_.attempted();
  ASSERT_TRUE(Eventually([&] { return flood_.attempted() > before + 20; }));
  ASSERT_TRUE(sessions_->busy().has_value());
  EXPECT_EQ(sessions_->busy()->state(), "recording");
  // Taken up again while it runs.
  auto fetch = Fetch(stream->armed.capture_key(), stream->last_item() + 1);
  ASSERT_TRUE(fetch->Await(v1::CaptureResponse::kItems).has_value());
  EXPECT_TRUE(sessions_->busy().has_value());
  ASSERT_TRUE(fetch->SendFinish(/*abandon=*/false));
  Drain(fetch.get());
  std::vector<v1::Item> items = stream->items;
  items.insert(items.end(), fetch->items.begin(), fetch->items.end());
  ExpectWithoutGap(items);
  const v1::Summary summary = SummaryOf(items);
  EXPECT_EQ(summary.ended_by(), "request");
  EXPECT_EQ(EventsOf(items), summary.events());
  EXPECT_EQ(summary.events() + summary.lost(), flood_.attempted());
  EXPECT_EQ(fetch->order.front(), "started");
}

// A link that breaks in the middle of a large item does not lose the chunks that arrived.
TEST_F(NativeResumeTest, ALargeItemIsTakenUpInItsMiddle) {
  flood_.set_raw_plane_bytes(3 << 20);
  StartFlood(Options());
  v1::CaptureRequest arm = ArmRequestOf("large");
  arm.mutable_arm()->set_chunks(true);
  auto stream = Arm(arm);
  ASSERT_TRUE(stream->Send(StartRequestOf(absl::Milliseconds(1))));
  while (stream->chunks.size() < 10) {
    ASSERT_TRUE(stream->Await(v1::CaptureResponse::kChunk).has_value());
  }
  const v1::Chunk last = stream->chunks.back();
  stream->Cancel();
  stream->Finish();
  v1::Resume resume;
  resume.set_capture_key(stream->armed.capture_key());
  resume.set_next_item(last.number());
  resume.set_chunks(true);
  resume.set_next_offset(last.offset() + last.data().size());
  auto fetch = Fetch(resume);
  ASSERT_TRUE(fetch->Await(v1::CaptureResponse::kChunk).has_value());
  EXPECT_EQ(fetch->chunks.front().number(), last.number());
  EXPECT_EQ(fetch->chunks.front().offset(), resume.next_offset());
  fetch->Cancel();
  fetch->Finish();
  // An offset that the item does not have: from its beginning.
  resume.set_next_offset(uint64_t{1} << 40);
  fetch = Fetch(resume);
  ASSERT_TRUE(fetch->Await(v1::CaptureResponse::kChunk).has_value());
  EXPECT_EQ(fetch->chunks.front().offset(), 0U);
  Drain(fetch.get());
  EXPECT_EQ(fetch->chunks.back().offset() + fetch->chunks.back().data().size(), last.body_bytes());
}

// Its client was killed: nobody waits for the planned end, and nobody else may record until then.
TEST_F(NativeResumeTest, ARecordingWhoseClientIsGoneEndsAndIsHeld) {
  flood_.Flood(1'000'000, 1, 1'000);
  GrpcServerOptions options = Options();
  options.native_limits.resume = absl::Seconds(1);
  StartFlood(std::move(options));
  auto stream = Start(absl::Minutes(30), "left");
  ASSERT_TRUE(stream->Await(v1::CaptureResponse::kItems).has_value());
  stream->Cancel();
  stream->Finish();
  EXPECT_TRUE(AwaitIdle());
  auto fetch = Fetch(stream->armed.capture_key(), stream->last_item() + 1);
  EXPECT_EQ(Drain(fetch.get()).code(), 0);
  std::vector<v1::Item> items = stream->items;
  items.insert(items.end(), fetch->items.begin(), fetch->items.end());
  ExpectWithoutGap(items);
  const v1::Summary summary = SummaryOf(items);
  EXPECT_EQ(summary.ended_by(), "client_lost");
  EXPECT_TRUE(summary.truncated());
}

TEST_F(NativeResumeTest, AClientThatComesBackInTimeKeepsItsRecording) {
  flood_.Flood(1'000'000, 1, 1'000);
  GrpcServerOptions options = Options();
  options.native_limits.resume = absl::Seconds(5);
  StartFlood(std::move(options));
  auto stream = Start(absl::Seconds(8), "back");
  stream->Cancel();
  stream->Finish();
  auto fetch = Fetch(stream->armed.capture_key(), stream->last_item() + 1);
  ASSERT_TRUE(fetch->Await(v1::CaptureResponse::kItems).has_value());
  EXPECT_EQ(sessions_->busy()->client_lost_ms(), 0U);
  Drain(fetch.get());
  EXPECT_EQ(SummaryOf(fetch->items).ended_by(), "duration");
}

TEST_F(NativeResumeTest, BusyAndStopTellWhoLeftIt) {
  GrpcServerOptions options = Options();
  options.native_limits.resume = absl::Minutes(10);
  StartServer(std::move(options));
  auto stream = Start(absl::Minutes(30), "left");
  stream->Cancel();
  stream->Finish();
  ASSERT_TRUE(Eventually([&] { return sessions_->busy()->client_lost_ms() > 0; }));
  auto next = Open();
  ASSERT_TRUE(next->Send(ArmRequestOf("next")));
  const grpc::Status busy = next->Finish();
  EXPECT_EQ(busy.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_THAT(busy.error_message(), HasSubstr("whose connection was lost "));
  grpc::ClientContext context;
  v1::StopRequest request;
  v1::StopResponse response;
  ASSERT_TRUE(native_->Stop(&context, request, &response).ok());
  EXPECT_TRUE(response.stopped());
  EXPECT_EQ(response.session_id(), "left");
  EXPECT_THAT(response.peer(), HasSubstr("127.0.0.1:"));
  EXPECT_GT(response.client_lost_ms(), 0U);
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(NativeResumeTest, TheNewestStreamWins) {
  flood_.Flood(1'000'000, 1, 1'000);
  StartFlood(Options());
  auto first = Start(absl::Minutes(1));
  ASSERT_TRUE(first->Await(v1::CaptureResponse::kItems).has_value());
  auto second = Fetch(first->armed.capture_key(), 1);
  ASSERT_TRUE(second->Await(v1::CaptureResponse::kItems).has_value());
  grpc::Status status = first->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(status.error_message(), HasSubstr("a newer Fetch has taken this capture over"));
  auto third = Fetch(first->armed.capture_key(), 1);
  ASSERT_TRUE(third->Await(v1::CaptureResponse::kItems).has_value());
  status = second->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  ASSERT_TRUE(third->SendFinish(/*abandon=*/false));
  Drain(third.get());
  ExpectWithoutGap(third->items);
  EXPECT_EQ(SummaryOf(third->items).ended_by(), "request");
}

TEST_F(NativeResumeTest, IsHeldForAWhileOnly) {
  flood_.Flood(50, 50, kFloodItemBytes);
  GrpcServerOptions options = Options();
  options.native_limits.hold = absl::Milliseconds(200);
  StartFlood(std::move(options));
  EXPECT_EQ(Describe().limits().hold_ms(), 200U);
  ::testing::internal::CaptureStderr();
  auto cut = CutCapture(1, 10);
  EXPECT_TRUE(Eventually([&] { return server_->open_captures() == 0; }));
  const std::string log = ::testing::internal::GetCapturedStderr();
  const grpc::Status status = Fetch(cut->armed.capture_key(), 2)->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("discarded: no client fetched it for 200ms"));
  EXPECT_THAT(log, AllOf(HasSubstr("session \"cut\""), HasSubstr("no client fetched it for 200ms"),
                         HasSubstr("items were not acknowledged")));
}

TEST_F(NativeResumeTest, AFetchEndsTheWait) {
  flood_.Flood(50, 50, kFloodItemBytes);
  GrpcServerOptions options = Options();
  options.native_limits.hold = absl::Seconds(5);
  StartFlood(std::move(options));
  auto cut = CutCapture(1, 10);
  auto fetch = Fetch(cut->armed.capture_key(), 2);
  ASSERT_TRUE(fetch->Await(v1::CaptureResponse::kItems).has_value());
  const absl::Time until = absl::Now() + absl::Seconds(6);
  // A client that is slow, but there.
  ASSERT_TRUE(Eventually([&] { return !fetch->Ack(2) || absl::Now() > until; }));
  Drain(fetch.get());
  ExpectWithoutGap(fetch->items, 2);
}

TEST_F(NativeResumeTest, TheNextSessionEvictsIt) {
  flood_.Flood(50, 50, kFloodItemBytes);
  StartFlood(Options());
  auto cut = CutCapture(1, 10);
  EXPECT_EQ(server_->open_captures(), 1U);
  EXPECT_FALSE(sessions_->busy().has_value());
  ::testing::internal::CaptureStderr();
  const Reply reply = Profile(Request(10, "unary"));
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(server_->open_captures(), 0U);
  const grpc::Status status = Fetch(cut->armed.capture_key(), 2)->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(),
              HasSubstr("the capture was evicted by session \"unary\" of 127.0.0.1:"));
  EXPECT_THAT(log, AllOf(HasSubstr("session \"cut\""), HasSubstr("evicted by session \"unary\"")));
}

TEST_F(NativeResumeTest, ANativeSessionEvictsIt) {
  flood_.Flood(50, 50, kFloodItemBytes);
  StartFlood(Options());
  auto cut = CutCapture(1, 10);
  auto next = RecordFlood("next");
  EXPECT_THAT(Fetch(cut->armed.capture_key(), 2)->Finish().error_message(),
              HasSubstr("evicted by session \"next\""));
  Drain(next.get());
  EXPECT_EQ(EventsOf(next->items), 50U);
}

// The slot is held again, so that nobody can evict it meanwhile.
TEST_F(NativeResumeTest, WhileItIsFetchedItIsNotEvicted) {
  flood_.Flood(50, 50, kFloodItemBytes);
  StartFlood(Options());
  auto cut = CutCapture(1, 10);
  auto fetch = Fetch(cut->armed.capture_key(), 2);
  ASSERT_TRUE(AwaitState("delivering"));
  EXPECT_EQ(sessions_->busy()->session_id(), "cut");
  auto next = Open();
  ASSERT_TRUE(next->Send(ArmRequestOf("next")));
  const grpc::Status status = next->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_THAT(status.error_message(), HasSubstr("delivering"));
  Drain(fetch.get());
  ExpectWithoutGap(fetch->items, 2);
  EXPECT_TRUE(AwaitIdle());
}

}  // namespace
}  // namespace jobscope
