// SPDX-License-Identifier: Apache-2.0
//
// Tests the memory that a worker holds for captures: at most the store, and nothing for those that
// are over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "common/process/process_usage.h"
#include "tests/server/native/native_fixture.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;

using NativeMemoryTest = NativeFixture;

// The reader reads nothing until the recording is over: what the worker holds stays under the cap,
// what did not fit is counted, and everything else arrives.
TEST_F(NativeMemoryTest, ASlowReaderCostsNoMemory) {
  constexpr uint64_t kStoreBytes = 4 << 20;
  flood_.Flood(2'000, 20, kFloodItemBytes);  // 40 MB
  GrpcServerOptions options = Options();
  options.store_bytes = kStoreBytes;
  StartFlood(std::move(options));
  auto stream = Start(absl::Minutes(1), "slow");
  const auto before = ProcessUsageReader().Read().rss_bytes;
  ASSERT_TRUE(Eventually([&] { return flood_.attempted() == 2'000; }));
  sessions_->Stop("slow");
  ASSERT_TRUE(AwaitState("delivering"));
  const auto after = ProcessUsageReader().Read().rss_bytes;
  ASSERT_TRUE(before.has_value() && after.has_value());
  // The store, a message that is being written, and what lies in sockets.
  if (kRssIsOurs) {
    EXPECT_LT(*after, *before + kStoreBytes + (6 << 20));
  }
  Drain(stream.get());
  ExpectWithoutGap(stream->items);
  const v1::Summary summary = SummaryOf(stream->items);
  EXPECT_EQ(EventsOf(stream->items), summary.events());
  EXPECT_EQ(summary.events() + summary.lost(), 2'000U);
  EXPECT_GT(summary.lost(), 0U);
  EXPECT_GT(summary.events(), 150U);
  for (const v1::Progress& progress : stream->progress) {
    EXPECT_LE(progress.unacknowledged_bytes(), kStoreBytes);
  }
}

// As above, but the reader acknowledges: a capture of ten times the store arrives.
TEST_F(NativeMemoryTest, AReaderThatAcknowledgesGetsMoreThanTheStore) {
  flood_.Flood(2'000, 2, kFloodItemBytes, /*patient=*/true);  // 40 MB
  GrpcServerOptions options = Options();
  options.store_bytes = 4 << 20;
  StartFlood(std::move(options));
  auto stream = Start(absl::Minutes(1));
  while (flood_.attempted() < 2'000) {
    ASSERT_TRUE(stream->Await(v1::CaptureResponse::kItems).has_value());
    ASSERT_TRUE(stream->Ack(stream->last_item()));
  }
  ASSERT_TRUE(stream->SendFinish(/*abandon=*/false));
  Drain(stream.get());
  ExpectWithoutGap(stream->items);
  const v1::Summary summary = SummaryOf(stream->items);
  EXPECT_EQ(EventsOf(stream->items), summary.events());
  EXPECT_EQ(summary.events(), 2'000U);
}

TEST_F(NativeMemoryTest, AHundredCapturesLeaveNothingBehind) {
  flood_.Flood(100, 100, kFloodItemBytes);
  StartFlood(Options());
  uint64_t warm_bytes = 0;
  ::testing::internal::CaptureStderr();  // each capture that was cut is logged when it goes
  for (int i = 0; i < 100; ++i) {
    if (i == 30) warm_bytes = ProcessUsageReader().Read().rss_bytes.value_or(0);
    auto stream = Start(absl::Milliseconds(2));
    if (i % 3 == 0) {
      stream->Cancel();
      stream->Finish();
      ASSERT_TRUE(AwaitIdle());
    } else if (i % 3 == 1) {
      ASSERT_TRUE(stream->SendFinish(/*abandon=*/true));
      Drain(stream.get());
    } else {
      Drain(stream.get());
    }
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("evicted by session"));
  // One that stayed would be 2 MB, seventy 140 MB; the client and malloc breathe, too.
  const uint64_t end_bytes = ProcessUsageReader().Read().rss_bytes.value_or(0);
  if (kRssIsOurs) {
    EXPECT_LT(end_bytes, warm_bytes + (32 << 20));
  }
  EXPECT_TRUE(Eventually([&] { return server_->open_calls() == 0; }));
  EXPECT_LE(server_->open_captures(), 1U);  // the last one that was cut
}

}  // namespace
}  // namespace jobscope
