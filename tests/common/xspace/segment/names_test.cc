// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/xspace/segment/stats.h"
#include "common/xspace/segment/store.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope::xspace {
namespace {

// Keeps items, or refuses all of them.
class RecordingSink : public ItemSink {
 public:
  [[nodiscard]] bool Append(ItemKind kind, std::string_view body) override {
    absl::MutexLock lock(&mutex_);
    if (refuse_) return false;
    items_.emplace_back(kind, std::string(body));
    return true;
  }
  bool Full() const override { return false; }
  void Refuse(bool refuse) {
    absl::MutexLock lock(&mutex_);
    refuse_ = refuse;
  }
  std::vector<std::pair<ItemKind, std::string>> items() const {
    absl::MutexLock lock(&mutex_);
    return items_;
  }

 private:
  mutable absl::Mutex mutex_;
  bool refuse_ = false;
  std::vector<std::pair<ItemKind, std::string>> items_;
};

v1::Names ParseNames(const std::pair<ItemKind, std::string>& item) {
  EXPECT_EQ(item.first, ItemKind::kNames);
  v1::Names names;
  EXPECT_TRUE(names.ParseFromString(item.second));
  return names;
}

TEST(NamesTest, IdsAreDensePerPlaneAndKind) {
  RecordingSink sink;
  Names names(&sink);
  const PlaneKey host = names.Plane("/host:CPU", 0);
  const PlaneKey gpu = names.Plane("/device:GPU:0", 1);
  EXPECT_EQ(host, 1U);
  EXPECT_EQ(gpu, 2U);
  EXPECT_EQ(names.Plane("/host:CPU", 77), host);
  EXPECT_EQ(names.Event(host, "a"), 1U);
  EXPECT_EQ(names.Event(host, "b"), 2U);
  EXPECT_EQ(names.Event(host, "a"), 1U);
  EXPECT_EQ(names.Event(gpu, "b"), 1U);
  EXPECT_EQ(names.Stat(host, "a"), 1U);
  EXPECT_EQ(names.Stat(host, "step_num"), 2U);
  EXPECT_EQ(names.Stat(gpu, "step_num"), 1U);
  EXPECT_EQ(sink.items().size(), 2U + 6U);
}

TEST(NamesTest, DisplayNameAndStatsMakeAnotherName) {
  RecordingSink sink;
  Names names(&sink);
  const PlaneKey host = names.Plane("/host:CPU", 0);
  StatsEncoder stats(StatsOf::kEventMetadata);
  stats.Int64(names.Stat(host, "line"), 12);
  const uint64_t plain = names.Event(host, "a");
  const uint64_t shown = names.Event(host, "a", "A");
  const uint64_t with_stats = names.Event(host, "a", {}, stats.bytes());
  EXPECT_EQ((std::set<uint64_t>{plain, shown, with_stats}), (std::set<uint64_t>{1, 2, 3}));
  EXPECT_EQ(names.Event(host, "a", "A"), shown);
  EXPECT_EQ(names.Event(host, "a", {}, stats.bytes()), with_stats);
  const v1::Names last = ParseNames(sink.items().back());
  EXPECT_EQ(last.plane(), host);
  ASSERT_EQ(last.events_size(), 1);
  EXPECT_EQ(last.events(0).name(), "a");
  EXPECT_EQ(last.events(0).stats(), stats.bytes());
}

TEST(NamesTest, TextsBecomeUtf8) {
  RecordingSink sink;
  Names names(&sink);
  const PlaneKey host = names.Plane("pl\xff", 0);
  names.Event(host, "ev\xff", "di\xff");
  names.Stat(host, "st\xff");
  names.Line(host, 1, "li\xff");
  v1::Plane plane;
  ASSERT_TRUE(plane.ParseFromString(sink.items()[0].second));
  EXPECT_EQ(plane.name(), "pl?");
  EXPECT_EQ(ParseNames(sink.items()[1]).events(0).name(), "ev?");
  EXPECT_EQ(ParseNames(sink.items()[1]).events(0).display_name(), "di?");
  EXPECT_EQ(ParseNames(sink.items()[2]).stats(0).name(), "st?");
  v1::Line line;
  ASSERT_TRUE(line.ParseFromString(sink.items()[3].second));
  EXPECT_EQ(line.name(), "li?");
  EXPECT_EQ(names.Event(host, "ev?", "di?"), 1U);
}

TEST(NamesTest, LinesAreDeclaredOnceAndRenamed) {
  RecordingSink sink;
  Names names(&sink);
  const PlaneKey host = names.Plane("/host:CPU", 0);
  EXPECT_EQ(names.Line(host, 7, "main"), 7);
  EXPECT_EQ(names.Line(host, 7, "main"), 7);
  EXPECT_EQ(sink.items().size(), 2U);
  EXPECT_EQ(names.Line(host, 7, "trainer"), 7);
  EXPECT_EQ(sink.items().size(), 3U);
  EXPECT_EQ(names.Line(host, -3, ""), -3);
}

// R11: XProf takes lines with these ids for its own and leaves out what is on them.
TEST(NamesTest, LineIdsStayOutOfTheDerivedRange) {
  RecordingSink sink;
  Names names(&sink);
  const PlaneKey host = names.Plane("/host:CPU", 0);
  constexpr int64_t kDerived = 0xdeadbeef;
  std::set<int64_t> used;
  for (int64_t turn = 0; turn < 4; ++turn) {
    for (int64_t offset = -3; offset < 400; ++offset) {
      const int64_t key = names.Line(host, kDerived + offset + (turn << 32), "x");
      EXPECT_TRUE(used.insert(key).second) << "two lines became one";
      EXPECT_FALSE(key >= kDerived && key < kDerived + 390) << key;
    }
  }
  EXPECT_EQ(names.Line(host, kDerived - 1, "x"), kDerived - 1);
  EXPECT_EQ(names.Line(host, kDerived + 390, "x"), kDerived + 390);
  EXPECT_EQ(names.Line(host, kDerived, "x"), kDerived + (int64_t{1} << 32));
  // As a 32-bit number that was sign-extended it is outside.
  EXPECT_EQ(names.Line(host, kDerived - (int64_t{1} << 32), "x"), kDerived - (int64_t{1} << 32));
  EXPECT_NE(names.Line(host, 0, "x"), 0);
  EXPECT_EQ(names.Line(host, std::numeric_limits<int64_t>::max(), "x"),
            std::numeric_limits<int64_t>::max());
}

TEST(NamesTest, AFullSinkGivesZeroAndDeclaresLater) {
  RecordingSink sink;
  Names names(&sink);
  const PlaneKey host = names.Plane("/host:CPU", 0);
  EXPECT_EQ(names.Line(host, 5, "old"), 5);
  sink.Refuse(true);
  EXPECT_EQ(names.Plane("other", 0), 0U);
  EXPECT_EQ(names.Event(host, "a"), 0U);
  EXPECT_EQ(names.Stat(host, "a"), 0U);
  EXPECT_EQ(names.Line(host, 6, "a"), 0);
  EXPECT_EQ(names.Line(host, 5, "new"), 5) << "a declared line stays usable";
  EXPECT_FALSE(names.AddPlaneStats(host, "x"));
  sink.Refuse(false);
  EXPECT_EQ(names.Event(host, "a"), 1U);
  EXPECT_EQ(names.Stat(host, "a"), 1U);
  EXPECT_EQ(names.Plane("other", 0), 2U);
  EXPECT_EQ(names.Line(host, 6, "a"), 6);
}

TEST(NamesTest, UnknownPlanesGiveNothing) {
  RecordingSink sink;
  Names names(&sink);
  EXPECT_EQ(names.Event(0, "a"), 0U);
  EXPECT_EQ(names.Event(1, "a"), 0U);
  EXPECT_EQ(names.Stat(9, "a"), 0U);
  EXPECT_EQ(names.Line(1, 1, "a"), 0);
  EXPECT_FALSE(names.AddPlaneStats(1, "x"));
  EXPECT_TRUE(sink.items().empty());
}

// Each thread "uses" an id by appending an item that holds it: at that point the declaration must
// precede it.
TEST(NamesTest, NamesPrecedeTheirUseAcrossThreads) {
  constexpr int kThreads = 8;
  constexpr int kNames = 300;
  Store store(size_t{16} << 20);
  Names names(&store);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const PlaneKey plane = names.Plane("/host:CPU", 0);
      for (int i = 0; i < kNames; ++i) {
        const int which = (i * 7 + t * 13) % kNames;
        const uint64_t id = names.Event(plane, "name " + std::to_string(which));
        ASSERT_TRUE(
            store.Append(ItemKind::kClock, std::to_string(id) + " " + std::to_string(which)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::map<std::string, std::string> declared;
  uint64_t next = 1;
  for (const ItemView& item : store.Items()) {
    if (item.kind == ItemKind::kNames) {
      v1::Names parsed;
      ASSERT_TRUE(parsed.ParseFromString(std::string(item.body)));
      EXPECT_EQ(parsed.events(0).id(), next++);
      declared[std::to_string(parsed.events(0).id())] = parsed.events(0).name();
    } else if (item.kind == ItemKind::kClock) {
      const std::string text(item.body);
      const size_t space = text.find(' ');
      EXPECT_EQ(declared[text.substr(0, space)], "name " + text.substr(space + 1));
    }
  }
  EXPECT_EQ(next, uint64_t{kNames} + 1);
}

}  // namespace
}  // namespace jobscope::xspace
