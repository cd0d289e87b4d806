// SPDX-License-Identifier: Apache-2.0
#include "collectors/provider/session_encoder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "collectors/provider/intake.h"
#include "common/clock/monotonic.h"
#include "common/xspace/segment/store.h"
#include "tests/collectors/gated_sink.h"
#include "tests/collectors/provider/fake_provider.h"

namespace jobscope::provider {
namespace {

std::unique_ptr<EventBatch> OneEvent(int64_t begin_ns, int64_t duration_ns = 1) {
  auto batch = std::make_unique<EventBatch>();
  EXPECT_TRUE(batch->Add(Span("read", begin_ns, duration_ns)));
  return batch;
}

TEST(IntakeTest, CountsWhatItDoesNotTake) {
  Intake intake;
  EXPECT_EQ(intake.Take(), nullptr);
  intake.Open();
  EXPECT_EQ(intake.Take(), nullptr) << "there are no events";
  EXPECT_FALSE(intake.Add(Span("backwards", 0, -1)));
  uint64_t taken = 0;
  while (!intake.full()) taken += intake.Add(Span("read", 0, 1)) ? 1 : 0;
  EXPECT_FALSE(intake.Add(Span("read", 0, 1)));
  EXPECT_EQ(intake.malformed(), 1u);
  EXPECT_EQ(intake.buffer_full(), 1u);
  EXPECT_EQ(intake.attempted(), taken + 2);
  EXPECT_EQ(intake.Take()->events().size(), taken);
  EXPECT_TRUE(intake.Add(Span("read", 0, 1))) << "there is room again";
  intake.Close();
  EXPECT_FALSE(intake.open());
  EXPECT_EQ(intake.Take(), nullptr);
}

class SessionEncoderTest : public ::testing::Test {
 protected:
  SessionEncoderTest() {
    request_.start_ticks = 1'000;
    request_.map = TickMap().WithZero(request_.start_ticks);
    begin_ = InstantOf(request_.map, request_.start_ticks);
    encoder_.Begin(request_, /*realtime=*/false, /*uses_tsc=*/false);
  }

  CollectorReport Report() const {
    CollectorReport report;
    encoder_.AddTo(&report);
    return report;
  }

  xspace::Store store_{4 << 20};
  xspace::Names names_{&store_};
  SessionEncoder encoder_{"disk", 3, &store_, &names_};
  StartRequest request_;
  Instant begin_;
};

TEST_F(SessionEncoderTest, AnEventAfterTheEndThatBecomesKnownLateIsOutside) {
  const auto now = SteadyNow();
  encoder_.Hold(OneEvent(begin_.monotonic_ns), now);
  encoder_.Hold(OneEvent(begin_.monotonic_ns + 1'000), now + absl::Milliseconds(1));
  encoder_.EncodeOld(now + SessionEncoder::kHoldFor);  // the first
  encoder_.EndAt({begin_.monotonic_ns, begin_.realtime_ns});
  encoder_.Finish();
  EXPECT_FALSE(encoder_.begun());
  EXPECT_EQ(Report().events, 1u);
  EXPECT_EQ(Report().outside, 1u);
}

TEST_F(SessionEncoderTest, TheEarliestEndCounts) {
  encoder_.EndAt({begin_.monotonic_ns + 10, 0});
  encoder_.EndAt({begin_.monotonic_ns + 20, 0});
  encoder_.Hold(OneEvent(begin_.monotonic_ns + 15), SteadyNow());
  encoder_.Finish();
  EXPECT_EQ(Report().events, 0u);
  EXPECT_EQ(Report().outside, 1u);
}

// The store is full while the first events come, and has room again for the second ones.
TEST_F(SessionEncoderTest, ALineWithoutRoomLosesItsEventsUntilThereIsRoom) {
  for (const xspace::ItemKind refused : {xspace::ItemKind::kLine, xspace::ItemKind::kPlane}) {
    xspace::Store store(4 << 20);
    GatedSink sink(&store);
    xspace::Names names(&sink);
    SessionEncoder encoder("disk", 3, &sink, &names);
    encoder.Begin(request_, /*realtime=*/false, /*uses_tsc=*/false);
    const auto encode = [&] {
      jobscope_provider_event own = Span("own", begin_.monotonic_ns, 1);
      own.line = "queue";
      jobscope_provider_event of_thread = Span("of a thread", begin_.monotonic_ns, 1);
      of_thread.thread_id = gettid();
      jobscope_provider_event counter = Span("depth", begin_.monotonic_ns, 0);
      counter.kind = JOBSCOPE_PROVIDER_COUNTER;
      auto batch = std::make_unique<EventBatch>();
      for (const auto& event : {own, of_thread, counter}) EXPECT_TRUE(batch->Add(event));
      const auto now = SteadyNow();
      encoder.Hold(std::move(batch), now);
      encoder.EncodeOld(now + SessionEncoder::kHoldFor);
    };
    sink.refused = {refused};
    encode();
    sink.refused.clear();
    encode();
    encoder.Finish();
    CollectorReport report;
    encoder.AddTo(&report);
    EXPECT_EQ(report.events, 3u) << static_cast<int>(refused);
    EXPECT_EQ(report.lost_by_cause[LossCause::kStoreFull], 3u);
  }
}

TEST_F(SessionEncoderTest, MoreThanTheBoundIsEncodedAtOnce) {
  const auto now = SteadyNow();
  auto large = std::make_unique<EventBatch>();
  uint64_t events = 0;
  for (; large->bytes() <= SessionEncoder::kMaxHeldBytes; ++events) {
    ASSERT_TRUE(large->Add(Span("read", begin_.monotonic_ns, 1)));
  }
  encoder_.Hold(std::move(large), now);
  encoder_.EncodeOld(now);
  encoder_.EndAt({begin_.monotonic_ns - 1, 0});
  encoder_.Finish();
  const CollectorReport report = Report();
  EXPECT_EQ(report.outside, 0u);
  uint64_t lost = 0;
  for (const auto& [cause, count] : report.lost_by_cause) lost += count;
  EXPECT_EQ(report.events + lost, events);
}

}  // namespace
}  // namespace jobscope::provider
