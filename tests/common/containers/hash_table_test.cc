// SPDX-License-Identifier: Apache-2.0
#include "common/containers/hash_table.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tests/failing_memory.h"

namespace jobscope {
namespace {

class HashTableTest : public ::testing::Test {
 protected:
  HashTableTest() {
    pthread_setname_np(pthread_self(), "jobscope-test");
    for (int i = 0; i < 500; ++i) keys_.push_back(std::string(100, 'x') + std::to_string(i));
  }
  ~HashTableTest() override { StopFailing(); }

  // Inserts until the allocation number `at` fails, then uses the table.
  template <typename Table, typename Insertion>
  void Check(int at, Insertion insert) {
    Table table;
    FailAllocations(at, /*failures=*/1);
    try {
      for (const std::string& key : keys_) insert(&table, key);
    } catch (const std::bad_alloc&) {
      EXPECT_TRUE(table.empty());
    }
    StopFailing();
    for (const std::string& key : keys_) insert(&table, key);
    EXPECT_EQ(table.size(), keys_.size());
    EXPECT_TRUE(table.contains(keys_.back()));
    const Table moved = std::move(table);
    EXPECT_EQ(moved.size(), keys_.size());
  }

  std::vector<std::string> keys_;
};

using Map = HashMap<std::string, std::string>;

TEST_F(HashTableTest, AFailedInsertionLeavesAnEmptyTable) {
  for (int at = 1; at < 1500; at += 7) {
    Check<Map>(at, [](Map* map, const std::string& key) { map->emplace(key, key); });
    Check<Map>(at, [](Map* map, const std::string& key) { map->try_emplace(key, key); });
    Check<Map>(at, [](Map* map, const std::string& key) { (*map)[key] = ""; });
    Check<HashSet<std::string>>(at, [](auto* set, const std::string& key) { set->insert(key); });
  }
}

}  // namespace
}  // namespace jobscope
