// SPDX-License-Identifier: Apache-2.0
//
// Tests random appends, reads and releases from several threads at once: items are read in order
// and once, the limit holds, and no thread waits without end. Also meant for ThreadSanitizer.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/xspace/segment/store.h"

namespace jobscope::xspace {
namespace {

constexpr auto kTimeout = std::chrono::seconds(60);

// Who appended it, the how-many-th of that thread, and bytes that follow from both.
std::string Body(uint32_t thread, uint32_t index, size_t size) {
  std::string body(std::max<size_t>(size, 8), static_cast<char>(thread * 31 + index));
  std::memcpy(body.data(), &thread, 4);
  std::memcpy(body.data() + 4, &index, 4);
  return body;
}

bool IsWhole(std::string_view body, uint32_t* thread, uint32_t* index) {
  if (body.size() < 8) return false;
  std::memcpy(thread, body.data(), 4);
  std::memcpy(index, body.data() + 4, 4);
  const char filling = static_cast<char>(*thread * 31 + *index);
  return body.substr(8).find_first_not_of(filling) == std::string_view::npos;
}

// Sleeps until the listener calls.
class Doorbell {
 public:
  void Ring() {
    std::lock_guard<std::mutex> lock(mutex_);
    rung_ = true;
    changed_.notify_all();
  }
  bool Await() {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool came = changed_.wait_for(lock, kTimeout, [this] { return rung_; });
    rung_ = false;
    return came;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
};

class StoreStreamTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(StoreStreamTest, WhatIsReadIsWhatWasAppended) {
  constexpr size_t kCap = size_t{2} << 20;
  constexpr uint32_t kWriters = 2;
  constexpr uint32_t kItems = 3000;  // each; about 20 MiB in all
  const uint32_t seed = GetParam();
  Doorbell door;
  Store store(kCap);
  store.SetListener([&door] { door.Ring(); });

  std::vector<std::thread> writers;
  for (uint32_t t = 0; t < kWriters; ++t) {
    writers.emplace_back([&store, t, seed] {
      std::mt19937 random(seed * 1000 + t);
      for (uint32_t i = 0; i < kItems; ++i) {
        const size_t size = random() % 50 == 0 ? random() % 300'000 : random() % 6'000;
        const std::string body = Body(t, i, size);
        const ItemKind kind = random() % 4 == 0 ? ItemKind::kNames : ItemKind::kEvents;
        const auto end = std::chrono::steady_clock::now() + kTimeout;
        // A full store accepts it again once the reader has released enough.
        while (!store.Append(kind, body)) {
          while (store.Full() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
          if (std::chrono::steady_clock::now() >= end) {
            ADD_FAILURE() << "no room comes back";
            break;
          }
        }
      }
    });
  }

  std::mt19937 random(seed);
  std::deque<HeldItem> held;  // as gRPC keeps them, in no relation to what is released
  std::vector<uint32_t> next(kWriters, 0);
  uint64_t number = 1;
  while (number <= uint64_t{kWriters} * kItems) {
    // Half of the time, waits for several items at once.
    const uint64_t last = uint64_t{kWriters} * kItems;
    const uint64_t wanted = random() % 2 == 0 ? std::min(number + 3, last) : number;
    if (!store.NotifyFrom(wanted)) {
      // Nothing of ours may keep the writers from getting there.
      store.Release(number - 1);
      held.clear();
      ASSERT_TRUE(door.Await()) << "a wake-up was lost";
    }
    const std::vector<HeldItem> items = store.Read(number, random() % 100'000);
    ASSERT_FALSE(items.empty());
    for (const HeldItem& item : items) {
      ASSERT_EQ(item.item.number, number++);
      uint32_t thread = 0;
      uint32_t index = 0;
      ASSERT_TRUE(IsWhole(item.item.body, &thread, &index));
      ASSERT_LT(thread, kWriters);
      ASSERT_EQ(index, next[thread]++);
      if (random() % 8 == 0) held.push_back(item);
    }
    ASSERT_LE(store.mapped_bytes(), kCap);
    // Up to two items short of what was read, never beyond it.
    const uint64_t behind = random() % 3;
    if (random() % 4 != 0 && number > behind) store.Release(number - 1 - behind);
    while (held.size() > 10) {
      uint32_t thread = 0;
      uint32_t index = 0;
      ASSERT_TRUE(IsWhole(held.front().item.body, &thread, &index)) << "it was written over";
      held.pop_front();
    }
    // All of it now and then, so that nobody waits for room that only this reader could make.
    if (store.Full()) {
      store.Release(number - 1);
      held.clear();
    }
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(store.last_number(), uint64_t{kWriters} * kItems);
  store.Release(number);
  held.clear();
  EXPECT_EQ(store.used_bytes(), 0U);
  EXPECT_TRUE(store.Items().empty());
  EXPECT_FALSE(store.Full());
}

INSTANTIATE_TEST_SUITE_P(Seeds, StoreStreamTest, ::testing::Range(0U, 8U));

}  // namespace
}  // namespace jobscope::xspace
