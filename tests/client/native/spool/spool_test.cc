// SPDX-License-Identifier: Apache-2.0
#include "client/native/spool/spool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/native/spool/item_receiver.h"
#include "client/native/spool/spool_index.h"
#include "client/native/wire/capture_message.h"
#include "common/xspace/assemble/read_meter.h"
#include "tests/client/fake_items.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SpoolTest, GivesBackWhatWasAddedAndLeavesNothingBehind) {
  const TemporaryDirectory directory;
  const std::vector<FakeItem> items = MakeItems(3, 4, 100);
  std::string bytes;
  {
    const auto spool = Spool::Create(directory.path());
    ASSERT_TRUE(spool.ok()) << spool.status();
    EXPECT_THAT(List(directory.path()), IsEmpty());
    // In pieces that follow each other, and some that don't.
    std::vector<std::string> pieces;
    for (const FakeItem& item : items) {
      pieces.emplace_back();
      AppendItem(item, &pieces.back());
      bytes += pieces.back();
    }
    ASSERT_TRUE((*spool)->Append({pieces.begin(), pieces.begin() + 2}).ok());
    ASSERT_TRUE((*spool)->Append({}).ok());
    ASSERT_TRUE((*spool)->Append({pieces.begin() + 2, pieces.end()}).ok());
    EXPECT_EQ((*spool)->bytes(), bytes.size());
    const auto read = SpoolItems::Read(**spool);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ((*read)->items().size(), items.size());
    for (int round = 0; round < 2; ++round) {
      for (size_t i = 0; i < items.size(); ++i) {
        EXPECT_EQ((*read)->items()[i].number, i + 1);
        EXPECT_EQ((*read)->items()[i].kind, items[i].kind);
        EXPECT_EQ((*read)->items()[i].body, items[i].body);
      }
      const auto address = reinterpret_cast<uintptr_t>((*read)->items()[0].body.data());
      (*read)->ReleasePages(
          {address / xspace::ReadMeter::kChunkBytes * xspace::ReadMeter::kChunkBytes});
    }
  }
  EXPECT_THAT(List(directory.path()), IsEmpty());
}

TEST(SpoolTest, ManySmallPieces) {
  const TemporaryDirectory directory;
  const auto spool = Spool::Create(directory.path());
  ASSERT_TRUE(spool.ok());
  std::vector<std::string> pieces(3000);
  for (size_t i = 0; i < pieces.size(); ++i) {
    AppendItem({i + 1, xspace::ItemKind::kLoss, "x"}, &pieces[i]);
  }
  ASSERT_TRUE((*spool)->Append({pieces.begin(), pieces.end()}).ok());
  const auto read = SpoolItems::Read(**spool);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ((*read)->items().size(), pieces.size());
}

TEST(SpoolTest, AnEmptyOneHasNoItems) {
  const TemporaryDirectory directory;
  const auto spool = Spool::Create(directory.path());
  ASSERT_TRUE(spool.ok());
  const auto read = SpoolItems::Read(**spool);
  ASSERT_TRUE(read.ok());
  EXPECT_THAT((*read)->items(), IsEmpty());
}

// Larger than a window of the mapping: views into those before it stay good.
TEST(SpoolTest, WhatIsAddedLaterIsFoundLater) {
  const TemporaryDirectory directory;
  const auto spool = Spool::Create(directory.path());
  ASSERT_TRUE(spool.ok());
  SpoolItems items(spool->get());
  std::vector<std::string> bodies;
  for (int i = 0; i < 12; ++i) {
    bodies.emplace_back(700'000 + 1000 * i, static_cast<char>('a' + i));
    std::string field;
    AppendItem({1, xspace::ItemKind::kLoss, bodies.back()}, &field);
    ASSERT_TRUE((*spool)->Append({field}).ok());
    std::vector<uint64_t> found;
    ASSERT_TRUE(
        items.Advance([&found](const xspace::ItemView& item) { found.push_back(item.number); })
            .ok());
    EXPECT_EQ(found, std::vector<uint64_t>{bodies.size()});
  }
  ASSERT_TRUE(items.Advance([](const xspace::ItemView&) { FAIL(); }).ok());
  ASSERT_EQ(items.items().size(), bodies.size());
  for (size_t i = 0; i < bodies.size(); ++i) EXPECT_EQ(items.items()[i].body, bodies[i]);
}

TEST(SpoolIndexTest, FollowsAndIsThatOfAllItems) {
  const TemporaryDirectory directory;
  const auto spool = Spool::Create(directory.path());
  ASSERT_TRUE(spool.ok());
  SpoolIndex index(spool->get());
  uint64_t index_bytes = 0;
  for (const FakeItem& item : MakeItems(3, 5, 100)) {
    std::string field;
    AppendItem(item, &field);
    ASSERT_TRUE((*spool)->Append({field}).ok());
    index_bytes += 1000;
    // The last ones are left to the end.
    if (item.number < 20) {
      ASSERT_TRUE(index.Follow(index_bytes));
    }
  }
  ASSERT_TRUE(index.Complete(index_bytes).ok());
  const xspace::ItemIndex made = index.TakeIndex();
  ASSERT_TRUE(made.unreadable.ok()) << made.unreadable;
  EXPECT_TRUE(made.has_summary);
  ASSERT_EQ(made.planes.size(), 1u);
  ASSERT_EQ(made.planes[0].lines.size(), 3u);
  for (const xspace::IndexedLine& line : made.planes[0].lines) {
    ASSERT_EQ(line.segments.size(), 5u);
    for (const xspace::Segment& segment : line.segments) EXPECT_EQ(segment.count, 100u);
  }
}

TEST(SpoolIndexTest, TheMemoryOfThoseThatFollowIsBoundedAndGivenBack) {
  const TemporaryDirectory directory;
  const auto spool = Spool::Create(directory.path());
  ASSERT_TRUE(spool.ok());
  constexpr uint64_t kHalf = uint64_t{32} << 20;
  for (int round = 0; round < 3; ++round) {
    SpoolIndex first(spool->get());
    SpoolIndex second(spool->get());
    SpoolIndex third(spool->get());
    EXPECT_TRUE(first.Follow(kHalf));
    EXPECT_TRUE(second.Follow(kHalf));
    EXPECT_FALSE(third.Follow(1));
    EXPECT_FALSE(second.Follow(kHalf + 1));
    EXPECT_TRUE(first.Follow(kHalf));  // what it has, it keeps
    // Never waits for those whose captures run.
    EXPECT_TRUE(third.Complete(uint64_t{2} << 30).ok());
  }
}

// Only what is not small lies on disk.
TEST(SpoolTest, NamesTheDirectoryThatIsNotThere) {
  const auto spool = Spool::Create("/nowhere/at/all");
  ASSERT_TRUE(spool.ok());
  std::string item;
  AppendItem({1, xspace::ItemKind::kLoss, std::string(400'000, 'x')}, &item);
  ASSERT_TRUE((*spool)->Append({item}).ok());
  ASSERT_TRUE((*spool)->Append({item}).ok());
  EXPECT_THAT(std::string((*spool)->Append({item}).message()),
              HasSubstr("/nowhere/at/all: No such file or directory"));
}

// Small ones too, once there are many.
TEST(SpoolTest, TheMemoryOfAllIsBounded) {
  std::string item;
  AppendItem({1, xspace::ItemKind::kLoss, std::string(1'000'000, 'x')}, &item);
  std::vector<std::unique_ptr<Spool>> spools;
  absl::Status status;
  while (status.ok() && spools.size() < 100) {
    spools.push_back(Spool::Create("/nowhere/at/all").value());
    status = spools.back()->Append({item});
  }
  EXPECT_EQ(spools.size(), (size_t{64} << 20) / item.size() + 1);
  spools.clear();
  EXPECT_TRUE(Spool::Create("/nowhere/at/all").value()->Append({item}).ok());
}

// For the time of a test.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

TEST(SpoolTest, AFileSizeLimitIsAnErrorAndWhatWasThereIsGood) {
  const TemporaryDirectory directory;
  const auto spool = Spool::Create(directory.path());
  ASSERT_TRUE(spool.ok());
  std::string item;
  AppendItem({1, xspace::ItemKind::kLoss, std::string(3000, 'x')}, &item);
  ASSERT_TRUE((*spool)->Append({item}).ok());
  {
    const FileSizeLimit limit(5000);
    const absl::Status status = (*spool)->Append({item});
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("File too large"));
  }
  // It stays so: otherwise half an item would be in between.
  EXPECT_FALSE((*spool)->Append({item}).ok());
  const auto read = SpoolItems::Read(**spool);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ((*read)->items().size(), 1u);
}

TEST(ItemReceiverTest, ADiskErrorStaysAndCountsNothing) {
  const TemporaryDirectory directory;
  const std::vector<FakeItem> items = MakeItems(1, 10, 1000);
  ItemReceiver receiver(directory.path(), 0);
  ASSERT_TRUE(receiver.Take(ItemsBytes(items, 0, 5)).ok());
  const FileSizeLimit limit(10'000);
  EXPECT_FALSE(receiver.Take(ItemsBytes(items, 5)).ok());
  EXPECT_FALSE(receiver.disk_error().ok());
  EXPECT_EQ(receiver.received().last_item, 5u);
  EXPECT_FALSE(receiver.Take(ItemsBytes(items, 5, 6)).ok());
}

TEST(ItemReceiverTest, TakesWhatComesBeforeTheFault) {
  const TemporaryDirectory directory;
  const std::vector<FakeItem> items = MakeItems(1, 4, 10);
  ItemReceiver receiver(directory.path(), 0);
  std::string bytes = ItemsBytes(items, 0, 7);
  bytes += "\x0a\x7f";
  const absl::Status status = receiver.Take(bytes);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(receiver.disk_error().ok());
  EXPECT_EQ(receiver.received().last_item, 7u);
  EXPECT_TRUE(receiver.Take(ItemsBytes(items, 3)).ok());
  EXPECT_EQ(receiver.received().last_item, items.size());
  EXPECT_EQ(receiver.received().summary_item, items.size());
  EXPECT_EQ(receiver.received().events, 40u);
  const auto spool = receiver.TakeSpool();
  const auto read = SpoolItems::Read(*spool);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ((*read)->items().size(), items.size());
}

// In the end nothing is left to be read.
TEST(ItemReceiverTest, IndexesWhatCameAsItComes) {
  const TemporaryDirectory directory;
  const std::vector<FakeItem> items = MakeItems(2, 3, 10);
  ItemReceiver receiver(directory.path(), 0);
  const size_t in_chunks = items.size() - 2;
  ASSERT_TRUE(receiver.Take(ItemsBytes(items, 0, in_chunks)).ok());
  const FakeItem& cut = items[in_chunks];
  const std::string_view body = cut.body;
  constexpr size_t kFirst = 60;  // with what it says about itself
  ASSERT_TRUE(
      receiver.TakeChunk({cut.number, cut.kind, body.size(), 0, body.substr(0, kFirst)}).ok());
  ASSERT_TRUE(
      receiver.TakeChunk({cut.number, cut.kind, body.size(), kFirst, body.substr(kFirst)}).ok());
  const std::unique_ptr<Spool> spool = receiver.TakeSpool();
  const std::unique_ptr<SpoolIndex> index = receiver.TakeIndex();
  ASSERT_NE(index, nullptr);
  ASSERT_EQ(index->items().items().size(), in_chunks + 1);
  EXPECT_EQ(index->items().items().back().body, body);
  uint64_t events = 0;
  const xspace::ItemIndex made = index->TakeIndex();
  for (const xspace::IndexedLine& line : made.planes.at(0).lines) {
    for (const xspace::Segment& segment : line.segments) events += segment.count;
  }
  EXPECT_EQ(events, receiver.received().events);
}

TEST(ItemReceiverTest, ItemsWithoutANumberOrOutOfOrderAreFaults) {
  const TemporaryDirectory directory;
  ItemReceiver receiver(directory.path(), 0);
  std::string bytes;
  AppendItem({0, xspace::ItemKind::kLoss, "x"}, &bytes);
  EXPECT_THAT(std::string(receiver.Take(bytes).message()), HasSubstr("item 0 where item 1 is due"));
  bytes.clear();
  AppendItem({2, xspace::ItemKind::kLoss, "x"}, &bytes);
  EXPECT_THAT(std::string(receiver.Take(bytes).message()), HasSubstr("item 2 where item 1 is due"));
  EXPECT_EQ(receiver.TakeSpool(), nullptr);
}

TEST(ItemReceiverTest, OverTheLimitOnlyEventsAreLeftOut) {
  const TemporaryDirectory directory;
  const std::vector<FakeItem> items = MakeItems(1, 20, 500);
  ItemReceiver receiver(directory.path(), 30'000);
  ASSERT_TRUE(receiver.Take(ItemsBytes(items)).ok());
  const ReceivedItems& received = receiver.received();
  EXPECT_TRUE(received.limited());
  EXPECT_EQ(received.last_item, items.size());
  EXPECT_EQ(received.events + received.left_out_events, 10'000u);
  EXPECT_GT(received.events, 0u);
  const auto spool = receiver.TakeSpool();
  EXPECT_LE(spool->bytes(), 31'000u);
  const auto read = SpoolItems::Read(*spool);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ((*read)->items().back().kind, xspace::ItemKind::kSummary);
}

}  // namespace
}  // namespace jobscope
