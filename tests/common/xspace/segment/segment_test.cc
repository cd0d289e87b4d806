// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/segment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "common/xspace/segment/event_reader.h"
#include "common/xspace/segment/stats.h"
#include "jobscope/v1/item.pb.h"
#include "tensorflow/xplane.pb.h"

namespace jobscope::xspace {
namespace {

using ::testing::ElementsAre;

struct Parsed {
  v1::Events item;
  tensorflow::profiler::XLine line;
  size_t body_bytes = 0;
};

class ParsingSink : public ItemSink {
 public:
  [[nodiscard]] bool Append(ItemKind kind, std::string_view body) override {
    EXPECT_EQ(kind, ItemKind::kEvents);
    if (refuse) return false;
    Parsed parsed;
    EXPECT_TRUE(parsed.item.ParseFromArray(body.data(), static_cast<int>(body.size())));
    EXPECT_TRUE(parsed.line.ParseFromString(parsed.item.events()));
    EXPECT_EQ(static_cast<int>(parsed.item.count()), parsed.line.events_size());
    EXPECT_EQ(parsed.item.first_start_ps(), parsed.line.events(0).offset_ps());
    EXPECT_EQ(parsed.item.last_start_ps(),
              parsed.line.events(parsed.line.events_size() - 1).offset_ps());
    parsed.body_bytes = body.size();
    segments.push_back(std::move(parsed));
    return true;
  }
  bool Full() const override { return refuse; }
  bool refuse = false;
  std::vector<Parsed> segments;
};

SegmentEvent Event(int64_t start_ps, int64_t duration_ps, uint64_t id, uint32_t depth = 0) {
  SegmentEvent event;
  event.start_ps = start_ps;
  event.duration_ps = duration_ps;
  event.metadata_id = id;
  event.depth = depth;
  return event;
}

std::vector<int64_t> Ids(const Parsed& segment) {
  std::vector<int64_t> ids;
  for (const auto& event : segment.line.events()) ids.push_back(event.metadata_id());
  return ids;
}

TEST(SegmentTest, CarriesItsKeysAndEvents) {
  ParsingSink sink;
  SegmentBuilder builder(&sink, 3, -7, 5);
  StatsEncoder stats(StatsOf::kEvent);
  stats.Int64(2, -1);
  SegmentEvent event = Event(1000, 20, 300);
  event.stats = stats.bytes();
  builder.Add(event);
  stats.Clear();
  builder.Flush();
  ASSERT_EQ(sink.segments.size(), 1U);
  const Parsed& segment = sink.segments[0];
  EXPECT_EQ(segment.item.plane(), 3U);
  EXPECT_EQ(segment.item.line(), -7);
  EXPECT_EQ(segment.item.source(), 5U);
  EXPECT_EQ(segment.line.events(0).metadata_id(), 300);
  EXPECT_EQ(segment.line.events(0).offset_ps(), 1000);
  EXPECT_EQ(segment.line.events(0).duration_ps(), 20);
  ASSERT_EQ(segment.line.events(0).stats_size(), 1);
  EXPECT_EQ(segment.line.events(0).stats(0).int64_value(), -1);
  EXPECT_EQ(builder.appended_events(), 1U);
}

TEST(SegmentTest, FlushOfNothingAppendsNothing) {
  ParsingSink sink;
  SegmentBuilder builder(&sink, 1, 1, 1);
  builder.Flush();
  builder.Add(Event(1, 1, 1));
  builder.Flush();
  builder.Flush();
  EXPECT_EQ(sink.segments.size(), 1U);
}

// R3: by start, longest first; parents before children also where that leaves it open.
// The store had no space for the line's declaration: readers reject a trace with events of a line
// that they do not know.
TEST(SegmentTest, EventsWithoutALineAreRefusedAndCounted) {
  ParsingSink sink;
  SegmentBuilder builder(&sink, 1, 0, 1);
  builder.Add(Event(1, 1, 1));
  builder.Add(Event(2, 1, 1));
  builder.Flush();
  EXPECT_TRUE(sink.segments.empty());
  EXPECT_EQ(builder.refused_events(), 2U);
  EXPECT_EQ(builder.appended_events(), 0U);
}

TEST(SegmentTest, ALineIsDeclaredOnceThereIsRoomAndThenKept) {
  ParsingSink sink;
  LineKey answer;
  int declarations = 0;
  SegmentBuilder builder(&sink, 1, [&] {
    ++declarations;
    return answer;
  });
  EXPECT_EQ(declarations, 0) << "no event, no line";
  builder.Add(Event(1, 1, 0));
  EXPECT_EQ(declarations, 0) << "an event without a name is none";
  builder.Add(Event(1, 1, 1));
  answer = {3, 7};
  builder.Add(Event(2, 1, 1));
  builder.Add(Event(3, 1, 1));
  EXPECT_EQ(declarations, 2);
  answer = {};
  builder.Declare();
  EXPECT_EQ(declarations, 3);
  builder.Add(Event(4, 1, 1));
  builder.Flush();
  EXPECT_EQ(declarations, 3);
  ASSERT_EQ(sink.segments.size(), 1U);
  EXPECT_EQ(sink.segments[0].item.plane(), 3U);
  EXPECT_EQ(sink.segments[0].item.line(), 7);
  EXPECT_EQ(builder.refused_events(), 2U);
  EXPECT_EQ(builder.appended_events(), 3U);
}

TEST(SegmentTest, CompletionOrderBecomesTraceOrder) {
  ParsingSink sink;
  SegmentBuilder builder(&sink, 1, 1, 1);
  builder.Add(Event(30, 5, 3));
  builder.Add(Event(40, 5, 4));
  builder.Add(Event(20, 40, 2));
  builder.Add(Event(70, 10, 5));
  builder.Add(Event(20, 80, 1));
  builder.Add(Event(200, 10, 6));
  builder.Flush();
  EXPECT_THAT(Ids(sink.segments[0]), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(SegmentTest, TiesGoByDepthThenLastCompletedFirst) {
  ParsingSink sink;
  SegmentBuilder builder(&sink, 1, 1, 1);
  builder.Add(Event(10, 5, 3, 2));
  builder.Add(Event(10, 5, 1, 0));
  builder.Add(Event(10, 5, 2, 1));
  builder.Flush();
  builder.Add(Event(10, 5, 2));
  builder.Add(Event(10, 5, 1));
  builder.Flush();
  EXPECT_THAT(Ids(sink.segments[0]), ElementsAre(1, 2, 3));
  EXPECT_THAT(Ids(sink.segments[1]), ElementsAre(1, 2));
}

// R4, R6.
TEST(SegmentTest, TimesAreBroughtIntoRange) {
  ParsingSink sink;
  SegmentBuilder builder(&sink, 1, 1, 1);
  const auto only = [&](int64_t start, int64_t duration) {
    builder.Add(Event(start, duration, 1));
    builder.Flush();
    const auto& event = sink.segments.back().line.events(0);
    return std::make_pair(event.offset_ps(), event.duration_ps());
  };
  EXPECT_EQ(only(5, 0), std::make_pair(int64_t{5}, int64_t{1}));
  EXPECT_EQ(only(5, -3), std::make_pair(int64_t{5}, int64_t{1}));
  EXPECT_EQ(only(-10, 30), std::make_pair(int64_t{0}, int64_t{20}));
  EXPECT_EQ(only(-10, 10), std::make_pair(int64_t{0}, int64_t{1}));
  EXPECT_EQ(only(-10, 3), std::make_pair(int64_t{0}, int64_t{1}));
  EXPECT_EQ(only(INT64_MIN, INT64_MIN), std::make_pair(int64_t{0}, int64_t{1}));
  EXPECT_EQ(only(INT64_MIN, INT64_MAX), std::make_pair(int64_t{0}, int64_t{1}));
  EXPECT_EQ(only(100, INT64_MAX), std::make_pair(int64_t{100}, kMaxEventPs - 101));
  EXPECT_EQ(only(INT64_MAX, INT64_MAX), std::make_pair(kMaxEventPs - 2, int64_t{1}));
}

TEST(SegmentTest, ClosesBySize) {
  ParsingSink sink;
  SegmentBuilder builder(&sink, 1, 1, 1);
  constexpr int kEvents = 20000;
  for (int i = 0; i < kEvents; ++i) builder.Add(Event(1'000'000'000 + i * 1000, 500, 1));
  builder.Flush();
  uint64_t events = 0;
  for (const Parsed& segment : sink.segments) {
    EXPECT_LE(segment.body_bytes, SegmentBuilder::kMaxBytes);
    events += segment.item.count();
  }
  EXPECT_EQ(events, uint64_t{kEvents});
  EXPECT_EQ(builder.appended_events(), uint64_t{kEvents});
  for (size_t i = 0; i + 1 < sink.segments.size(); ++i) {
    EXPECT_GE(sink.segments[i].body_bytes, SegmentBuilder::kMaxBytes * 98 / 100);
  }
}

TEST(SegmentTest, AnEventLargerThanASegmentGoesAlone) {
  ParsingSink sink;
  SegmentBuilder builder(&sink, 1, 1, 1);
  StatsEncoder stats(StatsOf::kEvent);
  stats.String(1, std::string(200'000, 'x'));
  builder.Add(Event(1, 1, 1));
  SegmentEvent event = Event(2, 1, 2);
  event.stats = stats.bytes();
  builder.Add(event);
  builder.Add(Event(3, 1, 3));
  builder.Flush();
  ASSERT_EQ(sink.segments.size(), 3U);
  EXPECT_THAT(Ids(sink.segments[1]), ElementsAre(2));
  EXPECT_EQ(sink.segments[1].line.events(0).stats(0).str_value().size(), 200'000U);
}

TEST(SegmentTest, ClosesWhenItsEventsEndFarApart) {
  ParsingSink sink;
  SegmentBuilder builder(&sink, 1, 1, 1);
  constexpr int64_t kMs = 1'000'000'000;
  builder.Add(Event(1000 * kMs, kMs, 1));
  builder.Add(Event(1200 * kMs, kMs, 2));
  EXPECT_TRUE(sink.segments.empty());
  builder.Add(Event(1300 * kMs, kMs, 3));
  EXPECT_EQ(sink.segments.size(), 1U);
  // A parent that began long ago does not close it: it ends now.
  builder.Add(Event(0, 1302 * kMs, 4));
  EXPECT_EQ(sink.segments.size(), 1U);
  builder.Flush();
  EXPECT_THAT(Ids(sink.segments[0]), ElementsAre(1, 2));
  EXPECT_THAT(Ids(sink.segments[1]), ElementsAre(4, 3));
}

TEST(SegmentTest, CountsWhatTheSinkRefuses) {
  ParsingSink sink;
  SegmentBuilder builder(&sink, 1, 1, 1);
  builder.Add(Event(1, 1, 1));
  builder.Flush();
  sink.refuse = true;
  builder.Add(Event(1, 1, 1));
  builder.Add(Event(2, 1, 1));
  builder.Flush();
  builder.Add(Event(2, 1, /*id=*/0));
  EXPECT_EQ(builder.appended_events(), 1U);
  EXPECT_EQ(builder.refused_events(), 3U);
  sink.refuse = false;
  builder.Add(Event(5, 1, 1));
  builder.Flush();
  EXPECT_EQ(builder.appended_events(), 2U);
  EXPECT_EQ(sink.segments.back().line.events_size(), 1);
}

TEST(SegmentTest, AnyOrderIsSorted) {
  for (const uint32_t seed : {1U, 2U, 3U, 4U}) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    ParsingSink sink;
    SegmentBuilder builder(&sink, 1, 1, 1);
    struct Expected {
      int64_t start, duration;
      uint32_t depth;
      int index;
    };
    std::vector<Expected> expected;
    constexpr int kEvents = 2500;
    for (int i = 0; i < kEvents; ++i) {
      // Seed 1: reversed; others: random with many ties.
      const int64_t start = seed == 1 ? kEvents - i : static_cast<int64_t>(random() % 50);
      const auto duration = static_cast<int64_t>(1 + random() % 4);
      const auto depth = static_cast<uint32_t>(random() % 3);
      expected.push_back({start, duration, depth, i + 1});
      builder.Add(Event(start, duration, static_cast<uint64_t>(i) + 1, depth));
    }
    builder.Flush();
    std::sort(expected.begin(), expected.end(), [](const Expected& a, const Expected& b) {
      if (a.start != b.start) return a.start < b.start;
      if (a.duration != b.duration) return a.duration > b.duration;
      if (a.depth != b.depth) return a.depth < b.depth;
      return a.index > b.index;
    });
    ASSERT_EQ(sink.segments.size(), 1U);
    const std::vector<int64_t> ids = Ids(sink.segments[0]);
    ASSERT_EQ(ids.size(), expected.size());
    for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(ids[i], expected[i].index) << i;
  }
}

}  // namespace
}  // namespace jobscope::xspace
