// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assemble/item_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jobscope/v1/item.pb.h"
#include "tensorflow/xplane.pb.h"
#include "tests/common/xspace/assemble/trace_util.h"

namespace jobscope::xspace {
namespace {

using ::testing::HasSubstr;

// Items of a small session, made by protobuf, so that each test can spoil one of them.
class ItemIndexTest : public ::testing::Test {
 protected:
  ItemIndexTest() {
    plane_.set_plane(1);
    plane_.set_id(3);
    plane_.set_name("/host:CPU");
    stat_names_.set_plane(1);
    AddName(stat_names_.add_stats(), 1, "step_num");
    event_names_.set_plane(1);
    AddName(event_names_.add_events(), 1, "a");
    AddName(event_names_.add_events(), 2, "b");
    line_.set_plane(1);
    line_.set_line(42);
    line_.set_name("main");
    AddEvent(10, 20, 1);
    AddEvent(15, 5, 2)->add_stats()->set_metadata_id(1);
    MakeSegment();
  }

  static void AddName(v1::Names::Name* name, uint64_t id, const std::string& text) {
    name->set_id(id);
    name->set_name(text);
  }

  tensorflow::profiler::XEvent* AddEvent(int64_t start_ps, int64_t duration_ps, int64_t id) {
    auto* const event = events_.add_events();
    event->set_metadata_id(id);
    event->set_offset_ps(start_ps);
    event->set_duration_ps(duration_ps);
    return event;
  }

  // The segment of events_.
  void MakeSegment() {
    segment_.Clear();
    segment_.set_plane(1);
    segment_.set_line(42);
    segment_.set_count(static_cast<uint32_t>(events_.events_size()));
    if (events_.events_size() > 0) {
      segment_.set_first_start_ps(events_.events(0).offset_ps());
      segment_.set_last_start_ps(events_.events(events_.events_size() - 1).offset_ps());
    }
    segment_.set_events(events_.SerializeAsString());
  }

  std::vector<OwnedItem> Items() const {
    return {{ItemKind::kPlane, plane_.SerializeAsString()},
            {ItemKind::kNames, stat_names_.SerializeAsString()},
            {ItemKind::kNames, event_names_.SerializeAsString()},
            {ItemKind::kLine, line_.SerializeAsString()},
            {ItemKind::kEvents, segment_.SerializeAsString()}};
  }

  void ExpectError(std::string_view text) { ExpectError(Items(), text); }
  static void ExpectError(const std::vector<OwnedItem>& items, std::string_view text) {
    const absl::StatusOr<ItemIndex> index = IndexItems(Views(items));
    ASSERT_FALSE(index.ok()) << "taken, instead of: " << text;
    EXPECT_EQ(index.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(index.status().message()), HasSubstr(std::string(text)));
  }

  v1::Plane plane_;
  v1::Names stat_names_;
  v1::Names event_names_;
  v1::Line line_;
  tensorflow::profiler::XLine events_;
  v1::Events segment_;
};

TEST_F(ItemIndexTest, ReadsASession) {
  const std::vector<OwnedItem> items = Items();
  const absl::StatusOr<ItemIndex> index = IndexItems(Views(items));
  ASSERT_TRUE(index.ok()) << index.status();
  ASSERT_EQ(index->planes.size(), 1U);
  const IndexedPlane& plane = index->planes[0];
  EXPECT_EQ(plane.id, 3);
  EXPECT_EQ(plane.name, "/host:CPU");
  EXPECT_EQ(plane.event_names.size(), 2U);
  EXPECT_EQ(plane.stat_names.size(), 1U);
  ASSERT_EQ(plane.lines.size(), 1U);
  EXPECT_EQ(plane.lines[0].key, 42);
  EXPECT_EQ(FromSpread(plane.lines[0].end), 30U);
  ASSERT_EQ(plane.lines[0].segments.size(), 1U);
  const Segment& segment = plane.lines[0].segments[0];
  EXPECT_EQ(segment.item, 5U);
  EXPECT_EQ(segment.count, 2U);
  EXPECT_EQ(FromSpread(segment.first.start), 10U);
  EXPECT_EQ(FromSpread(segment.last.duration), 5U);
  EXPECT_FALSE(index->has_summary);
}

TEST_F(ItemIndexTest, NumbersMustBeContiguousFromOne) {
  const std::vector<OwnedItem> items = Items();
  std::vector<ItemView> views = Views(items);
  views[0].number = 0;
  EXPECT_THAT(std::string(IndexItems(views).status().message()),
              HasSubstr("item 0 was found where item 1 is due"));
  views = Views(items);
  views.erase(views.begin() + 1);
  EXPECT_THAT(std::string(IndexItems(views).status().message()),
              HasSubstr("item 3 was found where item 2 is due"));
}

TEST_F(ItemIndexTest, KindOfTheCulpritIsNamed) {
  std::vector<OwnedItem> items = Items();
  items[3].body = "\xff";
  ExpectError(items, "item 4 (line): ");
  for (const ItemKind kind :
       {ItemKind::kEvents, ItemKind::kNames, ItemKind::kLine, ItemKind::kPlane, ItemKind::kRawPlane,
        ItemKind::kLoss, ItemKind::kClock, ItemKind::kSummary}) {
    ExpectError({{kind, std::string("\x0a\x05xx")}}, "item 1 (");
  }
}

TEST_F(ItemIndexTest, PlanesMustBeKnownAndDense) {
  segment_.set_plane(2);
  ExpectError("item 5 (events): unknown plane");
  MakeSegment();
  segment_.set_plane(0);
  ExpectError("unknown plane");
  MakeSegment();
  line_.set_plane(7);
  ExpectError("item 4 (line): unknown plane");
  line_.set_plane(1);
  event_names_.set_plane(2);
  ExpectError("item 3 (names): unknown plane");
  event_names_.set_plane(1);
  plane_.set_plane(2);
  ExpectError("item 1 (plane): unknown plane");
  plane_.set_plane(1);
  plane_.clear_name();
  ExpectError("a plane has no name");
}

TEST_F(ItemIndexTest, OnePlanePerName) {
  std::vector<OwnedItem> items = Items();
  v1::Plane second = plane_;
  second.set_plane(2);
  items.push_back({ItemKind::kPlane, second.SerializeAsString()});
  ExpectError(items, "item 6 (plane): two planes have one name");
  second.set_plane(1);
  second.set_name("other");
  items.back().body = second.SerializeAsString();
  ExpectError(items, "a plane changes its name");
}

TEST_F(ItemIndexTest, LinesMustBeKnown) {
  segment_.set_line(43);
  ExpectError("item 5 (events): unknown line");
}

TEST_F(ItemIndexTest, NamesMustBeKnownAndDense) {
  event_names_.mutable_events(1)->set_id(3);
  ExpectError("item 3 (names): the ids of names are not dense");
  event_names_.mutable_events(1)->set_id(1);
  ExpectError("the ids of names are not dense");
  event_names_.mutable_events()->RemoveLast();
  ExpectError("item 5 (events): an event has an unknown name");
  event_names_.clear_events();
  ExpectError("an event has an unknown name");
}

TEST_F(ItemIndexTest, EventsNeedAName) {
  events_.mutable_events(0)->set_metadata_id(0);
  MakeSegment();
  ExpectError("an event does not parse");  // protobuf leaves out a zero
  events_.mutable_events(0)->set_metadata_id(-1);
  MakeSegment();
  ExpectError("an event does not parse");
}

TEST_F(ItemIndexTest, StatsOfEventsMustBeKnown) {
  auto* const stat = events_.mutable_events(1)->mutable_stats(0);
  stat->set_metadata_id(2);
  MakeSegment();
  ExpectError("a stat has an unknown name");
  stat->set_metadata_id(1);
  stat->set_ref_value(2);
  MakeSegment();
  ExpectError("a stat refers to an unknown name");
  stat->set_ref_value(1);
  MakeSegment();
  const std::vector<OwnedItem> items = Items();
  EXPECT_TRUE(IndexItems(Views(items)).ok());
}

TEST_F(ItemIndexTest, StatsOfNamesAndPlanesMustBeKnown) {
  tensorflow::profiler::XEventMetadata metadata;
  metadata.add_stats()->set_metadata_id(9);
  event_names_.mutable_events(0)->set_stats(metadata.SerializeAsString());
  ExpectError("item 3 (names): a stat has an unknown name");
  event_names_.mutable_events(0)->set_stats("\x0a\x01x");
  ExpectError("item 3 (names): the stats contain another field");
  event_names_.mutable_events(0)->clear_stats();
  std::vector<OwnedItem> items = Items();
  tensorflow::profiler::XPlane stats;
  stats.add_stats()->set_metadata_id(9);
  v1::Plane more;
  more.set_plane(1);
  more.set_stats(stats.SerializeAsString());
  items.push_back({ItemKind::kPlane, more.SerializeAsString()});
  ExpectError(items, "item 6 (plane): a stat has an unknown name");
}

TEST_F(ItemIndexTest, EventsMustBeSorted) {
  events_.mutable_events()->SwapElements(0, 1);
  MakeSegment();
  ExpectError("events are out of order");
  events_.mutable_events(0)->set_offset_ps(10);
  MakeSegment();
  ExpectError("events are out of order");  // same start, shorter first
}

TEST_F(ItemIndexTest, EventsNeedATime) {
  events_.mutable_events(0)->set_duration_ps(-1);
  MakeSegment();
  ExpectError("an event does not parse");
  events_.mutable_events(0)->set_duration_ps(1);
  events_.mutable_events(0)->set_offset_ps(-1);
  MakeSegment();
  ExpectError("an event does not parse");
  events_.mutable_events(0)->clear_offset_ps();
  MakeSegment();
  ExpectError("an event does not parse");
  events_.mutable_events(0)->set_num_occurrences(4);
  MakeSegment();
  ExpectError("an event does not parse");
  events_.mutable_events(0)->set_offset_ps(kMaxEventPs - 1);
  MakeSegment();
  ExpectError("20 hours");
}

TEST_F(ItemIndexTest, ZeroDurationIsRefused) {
  // Protobuf would leave the zero out, so by hand: metadata_id 1, offset 2, duration 0.
  segment_.set_events(std::string("\x22\x06\x08\x01\x10\x02\x18\x00", 8));
  segment_.set_count(1);
  segment_.set_first_start_ps(2);
  segment_.set_last_start_ps(2);
  ExpectError("an event has no duration");
}

TEST_F(ItemIndexTest, CountsAndStartsMustBeTrue) {
  segment_.set_count(3);
  ExpectError("the number of events is not what it says");
  MakeSegment();
  segment_.set_first_start_ps(9);
  ExpectError("the first or last start is not what it says");
  MakeSegment();
  segment_.set_last_start_ps(16);
  ExpectError("the first or last start is not what it says");
}

TEST_F(ItemIndexTest, EveryTruncationOfASegmentIsRefused) {
  const std::string whole = segment_.events();
  for (size_t size = 0; size < whole.size(); ++size) {
    segment_.set_events(whole.substr(0, size));
    std::vector<OwnedItem> items = Items();
    EXPECT_FALSE(IndexItems(Views(items)).ok()) << size;
  }
}

TEST_F(ItemIndexTest, TextsMustBeUtf8) {
  const auto broken = [&](size_t item, std::string_view text) {
    std::vector<OwnedItem> items = Items();
    const size_t at = items[item].body.find(text);
    ASSERT_NE(at, std::string::npos);
    items[item].body[at] = '\xff';
    ExpectError(items, "not UTF-8");
  };
  broken(0, "/host:CPU");
  broken(1, "step_num");
  broken(3, "main");
  events_.mutable_events(1)->mutable_stats(0)->set_str_value("text");
  MakeSegment();
  broken(4, "text");
}

TEST_F(ItemIndexTest, EmptySegmentsAreTaken) {
  events_.clear_events();
  MakeSegment();
  const std::vector<OwnedItem> items = Items();
  const absl::StatusOr<ItemIndex> index = IndexItems(Views(items));
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_TRUE(index->planes[0].lines[0].segments.empty());
}

TEST_F(ItemIndexTest, ALaterLineItemRenames) {
  std::vector<OwnedItem> items = Items();
  line_.set_name("trainer");
  items.push_back({ItemKind::kLine, line_.SerializeAsString()});
  const absl::StatusOr<ItemIndex> index = IndexItems(Views(items));
  ASSERT_TRUE(index.ok());
  ASSERT_EQ(index->planes[0].lines.size(), 1U);
  EXPECT_EQ(index->planes[0].lines[0].name, "trainer");
}

TEST_F(ItemIndexTest, TheLastLossOfACollectorCounts) {
  std::vector<OwnedItem> items;
  for (const uint64_t events : {5U, 9U}) {
    v1::Loss loss;
    loss.set_collector("host");
    loss.add_causes()->set_events(events);
    items.push_back({ItemKind::kLoss, loss.SerializeAsString()});
  }
  const absl::StatusOr<ItemIndex> index = IndexItems(Views(items));
  ASSERT_TRUE(index.ok());
  ASSERT_EQ(index->losses.size(), 1U);
  EXPECT_EQ(index->losses.at("host").causes(0).events(), 9U);
}

TEST_F(ItemIndexTest, UnknownKindsAreLeftOutWithAWarning) {
  std::vector<OwnedItem> items = Items();
  items.insert(items.begin(), {static_cast<ItemKind>(77), "anything"});
  const absl::StatusOr<ItemIndex> index = IndexItems(Views(items));
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->planes.size(), 1U);
  ASSERT_EQ(index->warnings.size(), 1U);
  EXPECT_THAT(index->warnings[0], HasSubstr("1 items of kind 77 left out"));
}

TEST_F(ItemIndexTest, ABrokenFrameworkPlaneIsLeftOutWithAWarning) {
  std::vector<OwnedItem> items = Items();
  v1::RawPlane raw;
  raw.set_plane("\x0a");
  items.push_back({ItemKind::kRawPlane, raw.SerializeAsString()});
  const absl::StatusOr<ItemIndex> index = IndexItems(Views(items));
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_TRUE(index->raw_planes.empty());
  ASSERT_EQ(index->warnings.size(), 1U);
  EXPECT_THAT(index->warnings[0], HasSubstr("a framework's plane (item 6) left out"));
}

}  // namespace
}  // namespace jobscope::xspace
