// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <thread>
#include <vector>

#include "common/xspace/segment/segment.h"

namespace jobscope::xspace {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(StoreTest, ItemsStandInOrderAndNeverMove) {
  Store store(8 * kMiB);
  std::vector<std::string> bodies;
  for (size_t i = 0; i < 2000; ++i)
    bodies.push_back(std::string(i * 7 % 3000, static_cast<char>(i)));
  std::vector<const char*> addresses;
  for (size_t i = 0; i < bodies.size(); ++i) {
    ASSERT_TRUE(store.Append(i % 3 == 0 ? ItemKind::kEvents : ItemKind::kNames, bodies[i]));
    addresses.push_back(store.Items().back().body.data());
    if (i > 100) i += 50;  // Items() walks them all
  }
  const std::vector<ItemView> items = store.Items();
  ASSERT_EQ(items.size(), addresses.size());
  for (size_t i = 0; i < items.size(); ++i) {
    EXPECT_EQ(items[i].number, i + 1);
    EXPECT_EQ(items[i].body.data(), addresses[i]);
  }
  EXPECT_EQ(items[3].kind, ItemKind::kEvents);
  EXPECT_EQ(items[4].kind, ItemKind::kNames);
  EXPECT_EQ(items[7].body, bodies[7]);
  EXPECT_EQ(items[0].body, "");
}

TEST(StoreTest, MapsAsItFills) {
  Store store(256 * kMiB);
  EXPECT_EQ(store.mapped_bytes(), 0U);
  ASSERT_TRUE(store.Append(ItemKind::kNames, "x"));
  EXPECT_LE(store.mapped_bytes(), 2 * kMiB);
  EXPECT_GE(store.used_bytes(), 1U);
  EXPECT_LE(store.used_bytes(), 32U);
}

TEST(StoreTest, ABoundOnAllEventsHoldsWhateverIsReleased) {
  Store store(8 * kMiB, 10'000);
  int spent = 0;
  store.SetSpentListener([&spent] { ++spent; });
  const std::string body(3'000, 'e');
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(store.Append(ItemKind::kEvents, body));
    store.Release(store.last_number());
  }
  EXPECT_EQ(spent, 0);
  EXPECT_FALSE(store.spent());
  EXPECT_FALSE(store.Full());
  EXPECT_FALSE(store.Append(ItemKind::kEvents, body));
  EXPECT_EQ(spent, 1);
  EXPECT_TRUE(store.spent());
  EXPECT_TRUE(store.Full());
  // Also what would still fit: the trace ends at one place.
  EXPECT_FALSE(store.Append(ItemKind::kEvents, "e"));
  EXPECT_TRUE(store.Append(ItemKind::kSummary, body));
  EXPECT_EQ(spent, 1);
  EXPECT_EQ(store.appended_bytes(), 12'000U);
  EXPECT_FALSE(store.lacked_space());
}

class StoreCapTest : public ::testing::TestWithParam<size_t> {};

TEST_P(StoreCapTest, EventsLeaveRoomForTheRest) {
  const size_t cap = GetParam();
  Store store(cap);
  const std::string segment(SegmentBuilder::kMaxBytes - 30, 's');
  size_t events = 0;
  while (store.Append(ItemKind::kEvents, segment)) ++events;
  EXPECT_TRUE(store.Full());
  EXPECT_EQ(store.refused_items(), 1U);
  EXPECT_LE(store.mapped_bytes(), cap - cap / 20);
  // Segments fill blocks, so that little of the cap is left unused.
  EXPECT_GE(events * segment.size(), cap * 89 / 100);
  // The reserve takes what is not events: 5 % of the cap, in items of any size; a quarter of it
  // only losses and the summary.
  const std::string other(400, 'n');
  size_t others = 0;
  while (store.Append(ItemKind::kNames, other)) ++others;
  EXPECT_GE(others * other.size(), cap * 3 / 100);
  EXPECT_LE(store.mapped_bytes(), cap);
  EXPECT_EQ(store.Items().size(), events + others);
}

INSTANTIATE_TEST_SUITE_P(Caps, StoreCapTest,
                         ::testing::Values(kMiB, 3 * kMiB + 12345, 16 * kMiB, 40 * kMiB));

// A names item maps a block of the reserve, which has room for more than that item.
TEST(StoreTest, EventsNeverTakeTheReserve) {
  Store store(kMiB);
  const std::string event(3'000, 'e');
  while (store.Append(ItemKind::kEvents, event)) {
  }
  int taken = 0;
  for (int i = 0; i < 200; ++i) {
    (void)store.Append(ItemKind::kNames, std::string(400, 'n'));
    while (store.Append(ItemKind::kEvents, event)) ++taken;
  }
  EXPECT_EQ(taken, 0);
  EXPECT_TRUE(store.Full());
  EXPECT_TRUE(store.Append(ItemKind::kSummary, std::string(5'000, 's')));
  store.Release(store.last_number());
  EXPECT_FALSE(store.Full());
  EXPECT_TRUE(store.Append(ItemKind::kEvents, event));
}

TEST(StoreTest, NamesLeaveRoomForLossesAndTheSummary) {
  for (const bool events : {false, true}) {
    Store store(kMiB);
    while (events && store.Append(ItemKind::kEvents, std::string(3'000, 'e'))) {
    }
    while (store.Append(ItemKind::kNames, std::string(400, 'n'))) {
    }
    for (int i = 0; i < 10; ++i) {
      EXPECT_TRUE(store.Append(ItemKind::kLoss, std::string(300, 'l'))) << events;
    }
    EXPECT_FALSE(store.Append(ItemKind::kNames, std::string(400, 'n'))) << events;
    EXPECT_TRUE(store.Append(ItemKind::kSummary, std::string(5'000, 's'))) << events;
    EXPECT_LE(store.mapped_bytes(), kMiB);
  }
}

TEST(StoreTest, SmallItemsFillTheCapToo) {
  Store store(4 * kMiB);
  size_t bytes = 0;
  while (store.Append(ItemKind::kEvents, "small events item")) bytes += 32;
  EXPECT_GE(bytes, 4 * kMiB * 90 / 100);
  EXPECT_LE(store.mapped_bytes(), 4 * kMiB);
}

TEST(StoreTest, FullIsReportedForEventsOnly) {
  Store store(kMiB);
  EXPECT_FALSE(store.Append(ItemKind::kNames, std::string(2 * kMiB, 'x')));
  EXPECT_FALSE(store.Full());
  ASSERT_TRUE(store.Append(ItemKind::kEvents, std::string(kMiB / 2, 'x')));
  EXPECT_FALSE(store.Append(ItemKind::kEvents, std::string(kMiB / 2, 'x')));
  EXPECT_TRUE(store.Full());
  EXPECT_EQ(store.refused_items(), 2U);
  EXPECT_TRUE(store.Append(ItemKind::kNames, "still taken"));
}

TEST(StoreTest, AnItemThatNeverFitsDoesNotFillTheStore) {
  Store store(kMiB);
  EXPECT_FALSE(store.Append(ItemKind::kEvents, std::string(3 * kMiB, 'x')));
  EXPECT_FALSE(store.Full());
  EXPECT_EQ(store.refused_items(), 1U);
  EXPECT_TRUE(store.Append(ItemKind::kEvents, "small"));
}

TEST(StoreTest, TakesAnItemLargerThanABlock) {
  Store store(16 * kMiB);
  ASSERT_TRUE(store.Append(ItemKind::kNames, "before"));
  ASSERT_TRUE(store.Append(ItemKind::kRawPlane, std::string(5 * kMiB, 'r')));
  ASSERT_TRUE(store.Append(ItemKind::kNames, "after"));
  const std::vector<ItemView> items = store.Items();
  EXPECT_EQ(items[1].body.size(), 5 * kMiB);
  EXPECT_EQ(items[2].body, "after");
}

TEST(StoreTest, CapHasAFloor) {
  Store store(0);
  EXPECT_TRUE(store.Append(ItemKind::kEvents, std::string(64 * 1024, 'x')));
}

std::string Segment(uint64_t count, size_t event_bytes) {
  std::string body;
  protozero::pbf_writer writer(body);
  writer.add_uint32(1, 1);
  writer.add_sint64(2, -17);
  writer.add_uint32(3, 1);
  writer.add_uint64(4, count);
  writer.add_sint64(5, 1'000'000'000'000);
  writer.add_sint64(6, 2'000'000'000'000);
  writer.add_bytes(7, std::string(event_bytes, 'e'));
  return body;
}

TEST(StoreTest, CountsEventsWithoutParsingThem) {
  Store store(4 * kMiB);
  EXPECT_EQ(store.last_number(), 0U);
  const std::string segment = Segment(300, 1000);
  ASSERT_TRUE(store.Append(ItemKind::kEvents, segment));
  ASSERT_TRUE(store.Append(ItemKind::kNames, segment));  // no events, whatever it looks like
  ASSERT_TRUE(store.Append(ItemKind::kEvents, Segment(1, 0)));
  ASSERT_TRUE(store.Append(ItemKind::kEvents, ""));
  ASSERT_TRUE(store.Append(ItemKind::kEvents, "\x08"));
  ASSERT_TRUE(store.Append(ItemKind::kEvents, "no message"));
  ASSERT_TRUE(store.Append(ItemKind::kEvents, std::string(12, '\xff')));
  EXPECT_EQ(store.events(), 301U);
  EXPECT_EQ(store.last_number(), 7U);
  EXPECT_EQ(store.appended_bytes(), 2 * segment.size() + Segment(1, 0).size() + 1 + 10 + 12);
  store.Release(7);
  EXPECT_EQ(store.events(), 301U) << "also of released ones";
  EXPECT_EQ(store.last_number(), 7U);
}

std::vector<uint64_t> Numbers(const std::vector<HeldItem>& items) {
  std::vector<uint64_t> numbers;
  for (const HeldItem& held : items) numbers.push_back(held.item.number);
  return numbers;
}

TEST(StoreTest, ReadsAsMuchAsFits) {
  Store store(4 * kMiB);
  EXPECT_TRUE(store.Read(0, kMiB).empty());
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(store.Append(ItemKind::kNames, std::string(100, static_cast<char>('a' + i))));
  }
  EXPECT_EQ(Numbers(store.Read(0, kMiB)), (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(Numbers(store.Read(2, 200)), (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(Numbers(store.Read(2, 199)), (std::vector<uint64_t>{2}));
  EXPECT_EQ(Numbers(store.Read(5, 0)), (std::vector<uint64_t>{5})) << "at least one";
  EXPECT_TRUE(store.Read(6, kMiB).empty());
  store.Release(3);
  EXPECT_EQ(Numbers(store.Read(1, kMiB)), (std::vector<uint64_t>{4, 5}));
  EXPECT_EQ(store.Read(4, kMiB)[0].item.body, std::string(100, 'd'));
  const std::vector<ItemView> items = store.Items();
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[0].number, 4U);
  store.Release(2);  // given up already
  store.Release(100);
  EXPECT_TRUE(store.Items().empty());
  EXPECT_EQ(store.used_bytes(), 0U);
  ASSERT_TRUE(store.Append(ItemKind::kNames, "next"));
  EXPECT_EQ(store.Items()[0].number, 6U) << "numbers go on";
}

TEST(StoreTest, HeldItemsStayWhateverBecomesOfTheStore) {
  auto store = std::make_unique<Store>(2 * kMiB);
  ASSERT_TRUE(store->Append(ItemKind::kEvents, std::string(1000, 'h')));
  HeldItem held = store->Read(1, 0)[0];
  store->Release(1);
  // All of the cap is turned over several times: nothing is written over what is held.
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(store->Append(ItemKind::kEvents, std::string(20'000, 'x')));
    store->Release(store->last_number());
  }
  EXPECT_EQ(held.item.body, std::string(1000, 'h'));
  store.reset();
  EXPECT_EQ(held.item.body, std::string(1000, 'h'));
}

TEST(StoreTest, WhatIsHeldCountsUntilItIsFreed) {
  constexpr size_t kCap = 4 * kMiB;
  Store store(kCap);
  const std::string segment(60 * 1024, 's');
  while (store.Append(ItemKind::kEvents, segment)) {
  }
  std::vector<HeldItem> held = store.Read(1, kCap);
  store.Release(store.last_number());
  EXPECT_TRUE(store.Full()) << "nothing has come back";
  EXPECT_FALSE(store.Append(ItemKind::kEvents, segment));
  EXPECT_LE(store.mapped_bytes(), kCap);
  held.clear();
  EXPECT_FALSE(store.Full());
  EXPECT_TRUE(store.Append(ItemKind::kEvents, segment));
  EXPECT_LE(store.mapped_bytes(), kCap);
}

TEST(StoreTest, AFullStoreTakesEventsAgainOnceThereIsRoom) {
  constexpr size_t kCap = 16 * kMiB;
  Store store(kCap);
  const std::string segment(60 * 1024, 's');
  while (store.Append(ItemKind::kEvents, segment)) {
  }
  const uint64_t last = store.last_number();
  ASSERT_TRUE(store.Full());
  uint64_t released = 0;
  while (store.Full() && released < last) store.Release(++released);
  // An eighth of the cap, and not one item: else each would be followed by a refusal.
  EXPECT_GE(released * segment.size(), kCap / 9);
  EXPECT_LE(released * segment.size(), kCap / 4);
  int taken = 0;
  while (store.Append(ItemKind::kEvents, segment)) ++taken;
  EXPECT_GE(taken, 20);
  EXPECT_TRUE(store.Full());
  EXPECT_LE(store.mapped_bytes(), kCap);
}

// More than the whole cap in one item, in an empty store.
TEST(StoreTest, LargeItemsComeAndGo) {
  Store store(8 * kMiB);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(store.Append(ItemKind::kRawPlane, std::string(7 * kMiB, 'r'))) << i;
    ASSERT_FALSE(store.Append(ItemKind::kEvents, std::string(900 * 1024, 'x')));
    ASSERT_TRUE(store.Full());
    store.Release(store.last_number());
    ASSERT_FALSE(store.Full());
    for (int k = 0; k < 60; ++k)
      ASSERT_TRUE(store.Append(ItemKind::kEvents, std::string(100'000, 'x')));
    store.Release(store.last_number());
  }
}

TEST(StoreTest, AStreamLongerThanItsStoreLeavesNothingBehind) {
  constexpr size_t kCap = 4 * kMiB;
  Store store(kCap);
  const std::string segment = Segment(1000, 60'000);
  constexpr uint64_t kItems = 20'000;  // 1.2 GB
  size_t most_mapped = 0;
  for (uint64_t i = 0; i < kItems; ++i) {
    ASSERT_TRUE(store.Append(ItemKind::kEvents, segment));
    if (i % 16 == 15) store.Release(store.last_number() - 4);
    most_mapped = std::max(most_mapped, store.mapped_bytes());
  }
  EXPECT_LE(most_mapped, kCap);
  EXPECT_EQ(store.events(), kItems * 1000);
  EXPECT_EQ(store.appended_bytes(), kItems * segment.size());
  EXPECT_EQ(store.Items().size(), 4U);
  EXPECT_LE(store.used_bytes(), 5 * segment.size());
}

TEST(StoreTest, MemoryGoesBack) {
  Store store(256 * kMiB);
  const std::string segment(60 * 1024, 's');
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(store.Append(ItemKind::kEvents, segment));
  EXPECT_GE(store.mapped_bytes(), 100 * kMiB);
  store.Release(store.last_number());
  EXPECT_LE(store.mapped_bytes(), 6 * kMiB) << "a few blocks are kept";
}

TEST(StoreTest, TellsOfAnItemOnceAsked) {
  Store store(4 * kMiB);
  int reported = 0;
  store.SetListener([&reported] { ++reported; });
  ASSERT_TRUE(store.Append(ItemKind::kNames, "1"));
  EXPECT_EQ(reported, 0) << "nobody asked";
  EXPECT_TRUE(store.NotifyFrom(1)) << "it is there";
  EXPECT_FALSE(store.NotifyFrom(3));
  ASSERT_TRUE(store.Append(ItemKind::kNames, "2"));
  EXPECT_EQ(reported, 0);
  ASSERT_TRUE(store.Append(ItemKind::kNames, "3"));
  EXPECT_EQ(reported, 1);
  ASSERT_TRUE(store.Append(ItemKind::kNames, "4"));
  EXPECT_EQ(reported, 1) << "once";
  store.Release(4);
  EXPECT_TRUE(store.NotifyFrom(4)) << "it was there";
  EXPECT_FALSE(store.NotifyFrom(5));
  EXPECT_EQ(reported, 1);
}

TEST(StoreTest, TellsOfItemsOnceTheyAreLarge) {
  Store store(4 * kMiB);
  int reported = 0;
  store.SetListener([&reported] { ++reported; });
  ASSERT_TRUE(store.Append(ItemKind::kNames, "12"));
  ASSERT_TRUE(store.Append(ItemKind::kNames, "34"));
  EXPECT_TRUE(store.NotifyFrom(1, 4)) << "both together";
  EXPECT_FALSE(store.NotifyFrom(2, 4)) << "those before do not count";
  ASSERT_TRUE(store.Append(ItemKind::kNames, "5"));
  EXPECT_EQ(reported, 0);
  ASSERT_TRUE(store.Append(ItemKind::kNames, "6"));
  EXPECT_EQ(reported, 1);
  EXPECT_FALSE(store.NotifyFrom(5, 2)) << "there is none yet";
  ASSERT_TRUE(store.Append(ItemKind::kNames, "7"));
  EXPECT_EQ(reported, 1);
  ASSERT_TRUE(store.Append(ItemKind::kNames, "890"));
  EXPECT_EQ(reported, 2);
}

TEST(StoreTest, ManyThreadsFillItExactly) {
  constexpr int kThreads = 8;
  constexpr size_t kCap = 8 * kMiB;
  Store store(kCap);
  std::vector<std::thread> threads;
  std::atomic<uint64_t> taken{0};
  std::atomic<uint64_t> refused{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < 2000; ++i) {
        std::string body(100 + (i * 37 + static_cast<uint32_t>(t) * 11) % 4000,
                         static_cast<char>('a' + t));
        std::memcpy(body.data(), &i, sizeof(i));
        const bool events = i % 4 != 0;
        if (store.Append(events ? ItemKind::kEvents : ItemKind::kNames, body)) {
          taken.fetch_add(1);
        } else {
          refused.fetch_add(1);
        }
        if (i % 512 == 0) {
          EXPECT_LE(store.Items().size(), size_t{kThreads} * 2000);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken + refused, uint64_t{kThreads} * 2000);
  EXPECT_GT(refused, 0U);
  EXPECT_EQ(store.refused_items(), refused);
  EXPECT_LE(store.mapped_bytes(), kCap);
  EXPECT_LE(store.used_bytes(), store.mapped_bytes());
  const std::vector<ItemView> items = store.Items();
  EXPECT_EQ(items.size(), taken);
  // Each thread's items are whole and in its own order.
  std::vector<int64_t> last(kThreads, -1);
  for (const ItemView& item : items) {
    const char owner = item.body.back();
    uint32_t i;
    std::memcpy(&i, item.body.data(), sizeof(i));
    EXPECT_EQ(item.body.find_first_not_of(owner, sizeof(i)), std::string_view::npos);
    EXPECT_GT(static_cast<int64_t>(i), last[static_cast<size_t>(owner - 'a')]);
    last[static_cast<size_t>(owner - 'a')] = i;
  }
}

}  // namespace
}  // namespace jobscope::xspace
