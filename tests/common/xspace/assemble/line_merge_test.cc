// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assemble/line_merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/xplane.pb.h"
#include "tests/common/xspace/assemble/trace_util.h"

namespace jobscope::xspace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

struct TestEvent {
  int64_t start_ps;
  int64_t duration_ps;
  int64_t id;
};

// Segments that own their bytes.
class LineMergeTest : public ::testing::Test {
 protected:
  void AddSegment(const std::vector<TestEvent>& events) {
    XLine line;
    for (const TestEvent& event : events) {
      auto* const added = line.add_events();
      added->set_metadata_id(event.id);
      added->set_offset_ps(event.start_ps);
      added->set_duration_ps(event.duration_ps);
    }
    bytes_.push_back(std::make_unique<std::string>(line.SerializeAsString()));
    Segment segment;
    segment.item = segments_.size() + 1;
    segment.events = *bytes_.back();
    segment.count = events.size();
    segment.first = Key(events.front());
    segment.last = Key(events.back());
    segments_.push_back(segment);
  }

  static EventKey Key(const TestEvent& event) {
    return {ToSpread(static_cast<uint64_t>(event.start_ps)),
            ToSpread(static_cast<uint64_t>(event.duration_ps))};
  }

  std::vector<int64_t> Merge(int64_t begin_ps = 0, int64_t end_ps = kEnd) {
    StringSink sink;
    OutputBuffer out(&sink);
    WriteEvents(segments_, PackRuns(segments_), begin_ps, end_ps, &out);
    EXPECT_TRUE(out.Finish().ok());
    EXPECT_EQ(out.written(), sink.text.size());
    XLine line;
    EXPECT_TRUE(line.ParseFromString(sink.text));
    std::vector<int64_t> ids;
    for (const auto& event : line.events()) ids.push_back(event.metadata_id());
    return ids;
  }

  // Merges one segment for each of `items`, and compares the result with a sort of all events.
  void ExpectMergedLikeASort(const std::vector<std::vector<TestEvent>>& items) {
    struct Expected {
      TestEvent event;
      uint64_t item;
    };
    bytes_.clear();
    segments_.clear();
    std::vector<Expected> expected;
    for (std::vector<TestEvent> events : items) {
      std::stable_sort(events.begin(), events.end(),
                       [](const TestEvent& a, const TestEvent& b) { return Key(a) < Key(b); });
      AddSegment(events);
      for (const TestEvent& event : events) expected.push_back({event, segments_.back().item});
    }
    std::stable_sort(expected.begin(), expected.end(), [](const Expected& a, const Expected& b) {
      if (Key(a.event) < Key(b.event)) return true;
      if (Key(b.event) < Key(a.event)) return false;
      return a.item > b.item;
    });
    std::vector<int64_t> ids;
    for (const Expected& one : expected) ids.push_back(one.event.id);
    EXPECT_EQ(Merge(), ids);
  }

  std::vector<std::unique_ptr<std::string>> bytes_;
  std::vector<Segment> segments_;
};

TEST_F(LineMergeTest, SegmentsThatFollowEachOtherAreOneRun) {
  AddSegment({{0, 5, 1}, {10, 5, 2}});
  AddSegment({{20, 5, 3}});
  AddSegment({{20, 4, 4}, {30, 1, 5}});
  EXPECT_THAT(PackRuns(segments_), ElementsAre(xspace::Run{0, 1, 2}));
  EXPECT_THAT(Merge(), ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(LineMergeTest, RunsAreAsFewAsPossible) {
  // The third is a parent that began before the first; the others fit around it.
  AddSegment({{10, 5, 2}, {20, 5, 3}});
  AddSegment({{30, 5, 4}, {40, 5, 5}});
  AddSegment({{0, 50, 1}});
  AddSegment({{60, 5, 6}});
  EXPECT_THAT(PackRuns(segments_), ElementsAre(xspace::Run{2, 0, 1, 3}));
  EXPECT_THAT(Merge(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(LineMergeTest, EqualEventsAreLeftToTheMerge) {
  AddSegment({{10, 5, 3}});
  AddSegment({{10, 5, 2}});
  AddSegment({{10, 5, 1}});
  EXPECT_EQ(PackRuns(segments_).size(), 3U);
  EXPECT_THAT(Merge(), ElementsAre(1, 2, 3));
}

TEST_F(LineMergeTest, WithinAnItemTheOrderIsKept) {
  AddSegment({{10, 5, 3}, {10, 5, 4}});
  AddSegment({{10, 5, 1}, {10, 5, 2}});
  EXPECT_THAT(Merge(), ElementsAre(1, 2, 3, 4));
}

TEST_F(LineMergeTest, CutsAtBothEnds) {
  AddSegment({{10, 5, 1}, {20, 5, 2}, {30, 5, 3}, {40, 5, 4}});
  const Segment& segment = segments_[0];
  EXPECT_EQ(Cut(segment, 0, kEnd).count, 4U);
  EXPECT_EQ(Cut(segment, 10, 41).events.size(), segment.events.size());
  EXPECT_EQ(Cut(segment, 11, 40).count, 2U);
  EXPECT_EQ(Cut(segment, 20, 31).count, 2U);
  EXPECT_EQ(Cut(segment, 41, kEnd).count, 0U);
  EXPECT_EQ(Cut(segment, 0, 10).count, 0U);
  EXPECT_EQ(Cut(segment, 21, 30).count, 0U);
  EXPECT_THAT(Merge(20, 40), ElementsAre(2, 3));
  EXPECT_THAT(Merge(50, 60), IsEmpty());
}

TEST_F(LineMergeTest, RunsWithNothingInTheRangeAreSkipped) {
  AddSegment({{0, 100, 1}, {50, 5, 5}});
  AddSegment({{10, 5, 2}, {60, 5, 6}});
  AddSegment({{20, 5, 3}, {30, 5, 4}});
  EXPECT_THAT(Merge(20, 40), ElementsAre(3, 4));
  EXPECT_THAT(Merge(15, 55), ElementsAre(3, 4, 5));
}

// Many runs, with ties and long varints.
TEST_F(LineMergeTest, MergesLikeASort) {
  for (const uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const int64_t spread = seed % 2 == 0 ? 300 : int64_t{1} << (10 * seed);
    std::vector<std::vector<TestEvent>> items(20);
    int64_t next_id = 1;
    for (std::vector<TestEvent>& events : items) {
      for (size_t i = 1 + random() % 200; i > 0; --i) {
        events.push_back({static_cast<int64_t>(random()) & (kMaxEventPs / 2 - 1) & (spread - 1),
                          1 + static_cast<int64_t>(random() % 4), next_id++});
      }
    }
    ExpectMergedLikeASort(items);
  }
}

// Every number of runs up to 9, which take turns with stretches of up to 12 events; with ties. Runs
// have several segments, and end at different times.
TEST_F(LineMergeTest, MergesStretchesLikeASort) {
  for (size_t runs = 1; runs <= 9; ++runs) {
    SCOPED_TRACE(std::to_string(runs) + " runs");
    std::mt19937_64 random(runs);
    std::vector<std::vector<TestEvent>> items(runs);
    std::vector<size_t> item_of_run(runs);
    for (size_t run = 0; run < runs; ++run) item_of_run[run] = run;
    int64_t start_ps = 0;
    for (int64_t id = 1; id <= 4000;) {
      // The last runs are used less and less.
      const size_t run = random() % runs % (1 + static_cast<size_t>(4000 - id) * runs / 4000);
      if (items[item_of_run[run]].size() > 60) {
        item_of_run[run] = items.size();
        items.emplace_back();
      }
      for (size_t i = 1 + random() % 12; i > 0; --i) {
        start_ps += static_cast<int64_t>(random() % 3);
        items[item_of_run[run]].push_back({start_ps, 1 + static_cast<int64_t>(random() % 4), id++});
      }
    }
    items.erase(std::remove_if(items.begin(), items.end(),
                               [](const std::vector<TestEvent>& item) { return item.empty(); }),
                items.end());
    ExpectMergedLikeASort(items);
  }
}

}  // namespace
}  // namespace jobscope::xspace
