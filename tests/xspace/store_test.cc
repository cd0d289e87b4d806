// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "common/xspace/segment.h"

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
  EXPECT_LE(store.mapped_bytes(), kMiB);
  EXPECT_GE(store.used_bytes(), 1U);
  EXPECT_LE(store.used_bytes(), 32U);
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
  // The reserve takes what is not events: 5 % of the cap, in items of any size.
  const std::string other(400, 'n');
  size_t others = 0;
  while (store.Append(ItemKind::kNames, other)) ++others;
  EXPECT_GE(others * other.size(), cap * 4 / 100);
  EXPECT_LE(store.mapped_bytes(), cap);
  EXPECT_EQ(store.Items().size(), events + others);
}

INSTANTIATE_TEST_SUITE_P(Caps, StoreCapTest,
                         ::testing::Values(kMiB, 3 * kMiB + 12345, 16 * kMiB, 40 * kMiB));

TEST(StoreTest, SmallItemsFillTheCapToo) {
  Store store(4 * kMiB);
  size_t bytes = 0;
  while (store.Append(ItemKind::kEvents, "small events item")) bytes += 32;
  EXPECT_GE(bytes, 4 * kMiB * 90 / 100);
  EXPECT_LE(store.mapped_bytes(), 4 * kMiB);
}

TEST(StoreTest, FullIsToldOfEventsOnly) {
  Store store(kMiB);
  EXPECT_FALSE(store.Append(ItemKind::kNames, std::string(2 * kMiB, 'x')));
  EXPECT_FALSE(store.Full());
  EXPECT_FALSE(store.Append(ItemKind::kEvents, std::string(2 * kMiB, 'x')));
  EXPECT_TRUE(store.Full());
  EXPECT_EQ(store.refused_items(), 2U);
  EXPECT_TRUE(store.Append(ItemKind::kNames, "still taken"));
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
