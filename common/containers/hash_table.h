// SPDX-License-Identifier: Apache-2.0
//
// Hash tables for code that goes on after an allocation has failed.
#ifndef COMMON_CONTAINERS_HASH_TABLE_H_
#define COMMON_CONTAINERS_HASH_TABLE_H_

#include <new>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace jobscope {

// One of Abseil's tables. Those are unusable once an insertion throws: the next use, which may be
// the destructor, reads beyond their memory. This one is then empty, and what it held is never
// freed: pointers to it stay valid. Only these insertions are safe.
template <typename Table>
class HashTable : public Table {
 public:
  using Table::Table;
  HashTable() = default;
  HashTable(HashTable&&) noexcept = default;
  HashTable& operator=(HashTable&&) noexcept = default;

  template <typename... Args>
  auto emplace(Args&&... args) {
    return OrEmpty([&] { return Table::emplace(std::forward<Args>(args)...); });
  }
  template <typename... Args>
  auto try_emplace(Args&&... args) {
    return OrEmpty([&] { return Table::try_emplace(std::forward<Args>(args)...); });
  }
  template <typename Value = typename Table::value_type>
  auto insert(Value&& value) {
    return OrEmpty([&] { return Table::insert(std::forward<Value>(value)); });
  }
  template <typename Key = typename Table::key_type>
  auto& operator[](Key&& key) {
    return try_emplace(std::forward<Key>(key)).first->second;
  }

 private:
  template <typename Insertion>
  auto OrEmpty(Insertion insertion) {
    try {
      return insertion();
    } catch (...) {
      new (static_cast<Table*>(this)) Table();
      throw;
    }
  }
};

template <typename Key, typename Value>
using HashMap = HashTable<absl::flat_hash_map<Key, Value>>;
template <typename Key>
using HashSet = HashTable<absl::flat_hash_set<Key>>;

}  // namespace jobscope

#endif  // COMMON_CONTAINERS_HASH_TABLE_H_
