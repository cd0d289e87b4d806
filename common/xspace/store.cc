// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/store.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace jobscope::xspace {
namespace {

// Blocks are multiples of what a full segment takes with its header, so that these leave nothing of
// a block unused. A block that is mapped, but not yet written, takes no memory.
constexpr size_t kMaxBlockBytes = size_t{1} << 20;
constexpr size_t kMinBlockBytes = size_t{64} << 10;
constexpr size_t kMinCapBytes = size_t{1} << 20;
constexpr size_t kPageBytes = 4096;

// Stands before each body. Numbers are implied by the order.
struct ItemHeader {
  uint32_t kind;
  uint32_t size;
};
constexpr size_t kHeaderBytes = sizeof(ItemHeader);

size_t RoundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

struct Block {
  char* data = nullptr;
  size_t mapped = 0;
  size_t used = 0;  // of whole items
};

// Where an item lies: items of one block are adjacent, but the order of the session may alternate
// between two blocks.
struct Position {
  uint32_t block;
  uint32_t offset;
};

}  // namespace

struct Store::State {
  size_t cap = 0;        // never mapped beyond
  size_t event_cap = 0;  // no block is mapped beyond for an events item
  size_t block_bytes = 0;

  mutable absl::Mutex mutex;
  std::vector<Block> blocks ABSL_GUARDED_BY(mutex);
  size_t open_block ABSL_GUARDED_BY(mutex) = 0;  // where the next item goes if it fits
  std::vector<Position> positions ABSL_GUARDED_BY(mutex);
  size_t used ABSL_GUARDED_BY(mutex) = 0;
  size_t mapped ABSL_GUARDED_BY(mutex) = 0;
  uint64_t refused ABSL_GUARDED_BY(mutex) = 0;
  bool full ABSL_GUARDED_BY(mutex) = false;

  // A block with room for `bytes`, mapped now if there is none; its index, or -1.
  int64_t BlockFor(size_t bytes, bool events) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

int64_t Store::State::BlockFor(size_t bytes, bool events) {
  const auto room = [](const Block& block) { return block.mapped - block.used; };
  if (!blocks.empty() && room(blocks[open_block]) >= bytes) {
    return static_cast<int64_t>(open_block);
  }
  const size_t limit = events ? event_cap : cap;
  // The last block of the cap may be a short one, so that no memory of it is left unused.
  size_t wanted = std::max(block_bytes, RoundUp(bytes, kPageBytes));
  if (mapped + wanted > limit) {
    wanted = RoundUp(bytes, kPageBytes);
    if (wanted > limit || mapped > limit - wanted) return -1;
  }
  void* const data =
      mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return -1;
  blocks.push_back({static_cast<char*>(data), wanted, 0});
  mapped += wanted;
  const size_t added = blocks.size() - 1;
  // A large item gets a block of its own; the older one stays open while it has more room.
  if (added == 0 || wanted - bytes >= room(blocks[open_block])) open_block = added;
  return static_cast<int64_t>(added);
}

Store::Store(size_t cap_bytes) : state_(new State) {
  // Whole pages, so that what is mapped is what was counted.
  state_->cap = std::max(cap_bytes, kMinCapBytes) / kPageBytes * kPageBytes;
  state_->event_cap = state_->cap - RoundUp(state_->cap / 20, kPageBytes);
  state_->block_bytes = std::clamp(state_->cap / 16 / kMinBlockBytes * kMinBlockBytes,
                                   kMinBlockBytes, kMaxBlockBytes);
}

Store::~Store() {
  {
    absl::MutexLock lock(&state_->mutex);
    for (const Block& block : state_->blocks) munmap(block.data, block.mapped);
  }
  delete state_;
}

bool Store::Append(ItemKind kind, std::string_view body) {
  const bool events = kind == ItemKind::kEvents;
  absl::MutexLock lock(&state_->mutex);
  const bool too_large =
      body.size() > std::min<size_t>(state_->cap - kHeaderBytes, UINT32_MAX - kPageBytes);
  const size_t bytes = too_large ? 0 : RoundUp(kHeaderBytes + body.size(), kHeaderBytes);
  const int64_t index = too_large ? -1 : state_->BlockFor(bytes, events);
  if (index < 0) {
    ++state_->refused;
    if (events) state_->full = true;
    return false;
  }
  Block& block = state_->blocks[static_cast<size_t>(index)];
  const ItemHeader header{static_cast<uint32_t>(kind), static_cast<uint32_t>(body.size())};
  char* const at = block.data + block.used;
  std::memcpy(at, &header, kHeaderBytes);
  if (!body.empty()) std::memcpy(at + kHeaderBytes, body.data(), body.size());
  state_->positions.push_back({static_cast<uint32_t>(index), static_cast<uint32_t>(block.used)});
  block.used += bytes;
  state_->used += bytes;
  return true;
}

bool Store::Full() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->full;
}

std::vector<ItemView> Store::Items() const {
  absl::MutexLock lock(&state_->mutex);
  std::vector<ItemView> items;
  items.reserve(state_->positions.size());
  for (const Position& position : state_->positions) {
    const char* const at = state_->blocks[position.block].data + position.offset;
    ItemHeader header;
    std::memcpy(&header, at, kHeaderBytes);
    items.push_back({items.size() + 1, static_cast<ItemKind>(header.kind),
                     std::string_view(at + kHeaderBytes, header.size)});
  }
  return items;
}

size_t Store::used_bytes() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->used;
}

size_t Store::mapped_bytes() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->mapped;
}

uint64_t Store::refused_items() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->refused;
}

}  // namespace jobscope::xspace
