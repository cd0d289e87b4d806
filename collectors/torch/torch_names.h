// SPDX-License-Identifier: Apache-2.0
//
// Caches recorder sites for names that arrive as text with each operator.
#ifndef COLLECTORS_TORCH_TORCH_NAMES_H_
#define COLLECTORS_TORCH_TORCH_NAMES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "jobscope/detail/writer_abi.h"

namespace jobscope::framework::torch {

enum class Kind : uint8_t {
  kOperator = 0,
  kBackward = 1,
  kUser = 2,
  kAsync = 3,
  kInputWait = 4,   // the user scope in which a DataLoader waits for its next batch
  kCollective = 5,  // an asynchronous user scope of torch.distributed
};
inline constexpr size_t kKinds = 6;

inline constexpr uint32_t LevelOf(Kind kind) {
  return kind == Kind::kOperator || kind == Kind::kBackward ? JOBSCOPE_BIT_LEVEL2
                                                            : JOBSCOPE_BIT_LEVEL1;
}

// Maps names to recorder sites by content, because the texts are often temporary. Append-only and
// lock-free, because any number of the program's threads may search at once. Bounded by kind,
// because programs generate names such as "batch 17" without end, and would fill the recorder's
// dictionary for everybody.
class NameSites {
 public:
  // Longer names are identified by their front, as in the recorder.
  static constexpr size_t kMaxBytes = 127;
  static constexpr std::array<uint32_t, kKinds> kMaxNames = {1200, 400, 300, 100, 20, 100};

  struct Found {
    uint32_t site = 0;
    // The bound is reached: the site is that of the kind, and the name becomes an argument.
    bool name_as_argument = false;
    bool is_optimizer_step = false;
  };

  // Returns the kind of a user scope: kUser, kInputWait, kAsync or kCollective.
  static Kind KindOfUserScope(const char* name, bool is_async);

  explicit NameSites(const struct jobscope_trace_writer_table* writer);
  NameSites(const NameSites&) = delete;
  NameSites& operator=(const NameSites&) = delete;

  // Inline, because each operator calls it.
  Found Find(Kind kind, const char* name) {
    const Entry* const entry = ByAddress(name).load(std::memory_order_acquire);
    if (entry == nullptr || entry->kind != kind || std::strcmp(entry->text, name) != 0) {
      return FindByText(kind, name);
    }
    return FoundEntry(*entry);
  }

 private:
  struct Entry {
    uint64_t hash;
    uint32_t site;
    uint32_t length;
    Kind kind;
    bool is_optimizer_step;
    char text[kMaxBytes + 1];
  };
  static constexpr size_t kSlots = 4096;      // twice the names, a power of two
  static constexpr size_t kAddresses = 2048;  // a power of two

  static Found FoundEntry(const Entry& entry) {
    return {entry.site, false, entry.is_optimizer_step};
  }
  std::atomic<const Entry*>& ByAddress(const char* name) {
    const uint64_t hash = reinterpret_cast<uintptr_t>(name) * 0x9e3779b97f4a7c15u;
    return by_address_[(hash >> 40) & (kAddresses - 1)];
  }
  Found FindByText(Kind kind, const char* name);
  const Entry* FindOrAdd(Kind kind, const char* name);
  const Entry* Add(Kind kind, const char* name, size_t length, uint64_t hash);
  uint32_t SiteOf(Kind kind, const char* name, bool name_as_argument) const;

  const struct jobscope_trace_writer_table* const writer_;
  std::array<uint32_t, kKinds> general_ = {};
  std::array<std::atomic<uint32_t>, kKinds> used_ = {};
  std::array<std::atomic<const Entry*>, kSlots> slots_ = {};  // entries are never freed
  // The entry that was last found for a name at such an address. An operator's name stays where it
  // is; a temporary one may be another now, so its text is compared.
  std::array<std::atomic<const Entry*>, kAddresses> by_address_ = {};
};

}  // namespace jobscope::framework::torch

#endif  // COLLECTORS_TORCH_TORCH_NAMES_H_
