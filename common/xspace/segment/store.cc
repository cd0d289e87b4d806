// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/store.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "common/sync/mutex.h"
#include "common/xspace/segment/block_pool.h"
#include "common/xspace/wire/fields.h"
#include "common/xspace/wire/wire.h"

namespace jobscope::xspace {
namespace {

// Block sizes are multiples of a full segment with its header, so that segments fill a block
// completely. A block that is mapped but not yet written takes no memory.
constexpr size_t kMaxBlockBytes = size_t{2} << 20;
constexpr size_t kMinBlockBytes = size_t{64} << 10;
constexpr size_t kMinCapBytes = size_t{1} << 20;
constexpr size_t kPageBytes = 4096;

// Precedes each body. Numbers follow from the order.
struct ItemHeader {
  uint32_t kind;
  uint32_t size;
};
constexpr size_t kHeaderBytes = sizeof(ItemHeader);

size_t RoundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

size_t BytesOf(size_t body_bytes) { return RoundUp(kHeaderBytes + body_bytes, kHeaderBytes); }

struct Block {
  std::shared_ptr<char> data;
  size_t size = 0;
  size_t used = 0;    // bytes of whole items
  uint64_t live = 0;  // items that have not been released
};

// Gives the position of an item: items of one block are adjacent, but the session's order may
// alternate between two blocks.
struct Position {
  Block* block;
  uint32_t offset;

  ItemHeader header() const {
    ItemHeader header;
    std::memcpy(&header, block->data.get() + offset, kHeaderBytes);
    return header;
  }
  ItemView View(uint64_t number) const {
    const ItemHeader header = this->header();
    return {number, static_cast<ItemKind>(header.kind),
            std::string_view(block->data.get() + offset + kHeaderBytes, header.size)};
  }
};

// Returns `count` of an Events message; 0 if it is none. It precedes the events, so only a few
// bytes are read.
uint64_t CountOf(std::string_view events) {
  const char* at = events.data();
  const char* const end = at + events.size();
  while (at != nullptr && at < end) {
    uint64_t tag = 0;
    uint64_t value = 0;
    at = ReadVarint(at, end, &tag);
    if (at == nullptr || (tag & 7) != 0) return 0;
    at = ReadVarint(at, end, &value);
    if (at != nullptr && tag >> 3 == events_field::kCount) return value;
  }
  return 0;
}

// How many bytes the blocks may take, by the kind of the next item.
struct StoreLimits {
  explicit StoreLimits(size_t cap_bytes)
      // Whole pages, so that the mapped size equals the counted size.
      : cap(std::max(cap_bytes, kMinCapBytes) / kPageBytes * kPageBytes),
        events(cap - RoundUp(cap / 20, kPageBytes)),
        others(cap - RoundUp((cap - events) / 4, kPageBytes)),
        block(
            std::clamp(cap / 16 / kMinBlockBytes * kMinBlockBytes, kMinBlockBytes, kMaxBlockBytes)),
        reopen(cap / 8) {}

  // Returns the maximum of mapped bytes for a new item.
  size_t Of(ItemKind kind) const {
    if (kind == ItemKind::kEvents) return events;
    return kind == ItemKind::kLoss || kind == ItemKind::kSummary ? cap : others;
  }

  const size_t cap;     // maximum of mapped bytes
  const size_t events;  // maximum of mapped bytes for a new events item
  const size_t others;  // likewise for other items but losses and the summary
  const size_t block;   // size of a block, unless an item needs more
  const size_t reopen;  // free bytes needed before a full store takes events again
};

// The one call of the listener that NotifyFrom requests.
struct ListenerRequest {
  // Returns whether the item that was just added fulfils the request, which then is void.
  bool IsFulfilledBy(uint64_t added, size_t body_bytes) {
    if (added < number) return false;
    missing_bytes -= std::min(missing_bytes, body_bytes);
    if (missing_bytes > 0) return false;
    number = UINT64_MAX;
    return true;
  }

  uint64_t number = UINT64_MAX;  // no request
  size_t missing_bytes = 0;      // of bodies from item `number` on, besides those in the store
};

}  // namespace

struct Store::State {
  State(size_t cap_bytes, uint64_t max_event_bytes)
      : limits(cap_bytes),
        pool(std::make_shared<BlockPool>(limits.cap, limits.block)),
        event_bytes_left(max_event_bytes > 0 ? max_event_bytes : UINT64_MAX) {}

  const StoreLimits limits;
  const std::shared_ptr<BlockPool> pool;
  std::function<void()> listener;        // set before the first Append
  std::function<void()> spent_listener;  // likewise

  mutable Mutex mutex;
  std::vector<std::unique_ptr<Block>> blocks ABSL_GUARDED_BY(mutex);
  Block* open_block ABSL_GUARDED_BY(mutex) = nullptr;  // takes the next item if it fits
  // Positions of the items that have not been released, and the number of the first. Released items
  // leave nothing behind: a stream may be longer than memory.
  std::deque<Position> positions ABSL_GUARDED_BY(mutex);
  uint64_t first_number ABSL_GUARDED_BY(mutex) = 1;
  ListenerRequest request ABSL_GUARDED_BY(mutex);
  uint64_t events ABSL_GUARDED_BY(mutex) = 0;
  size_t appended ABSL_GUARDED_BY(mutex) = 0;
  size_t used ABSL_GUARDED_BY(mutex) = 0;
  uint64_t refused ABSL_GUARDED_BY(mutex) = 0;
  bool full ABSL_GUARDED_BY(mutex) = false;
  bool lacked_space ABSL_GUARDED_BY(mutex) = false;
  uint64_t event_bytes_left ABSL_GUARDED_BY(mutex);
  bool spent ABSL_GUARDED_BY(mutex) = false;
  bool closed ABSL_GUARDED_BY(mutex) = false;
  uint64_t returned_when_full ABSL_GUARDED_BY(mutex) = 0;

  uint64_t last_number() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return first_number + positions.size() - 1;
  }
  // Returns a block with space for `bytes`, mapping one if necessary; null if more than `limit`
  // would then be mapped, or is.
  Block* BlockFor(size_t bytes, size_t limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  std::unique_ptr<Block> Remove(Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Returns true if the listener must be called, without the lock.
  bool Take(Block* block, ItemKind kind, std::string_view body)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

Block* Store::State::BlockFor(size_t bytes, size_t limit) {
  const auto room = [](const Block* block) {
    return block == nullptr ? 0 : block->size - block->used;
  };
  // An open block that another kind of item has mapped beyond the limit is reserved for that kind.
  if (room(open_block) >= bytes && pool->in_use_bytes() <= limit) return open_block;
  size_t size = std::max(limits.block, RoundUp(bytes, kPageBytes));
  std::shared_ptr<char> data = pool->Take(size, limit);
  if (data == nullptr) {
    // The last block below the cap may be shorter, so that no memory stays unused.
    size = RoundUp(bytes, kPageBytes);
    data = pool->Take(size, limit);
    if (data == nullptr) return nullptr;
  }
  blocks.push_back(std::make_unique<Block>());
  Block* const added = blocks.back().get();
  added->data = std::move(data);
  added->size = size;
  // A large item gets a block of its own; the older one stays open while it has more space.
  if (size - bytes >= room(open_block)) {
    Block* const before = std::exchange(open_block, added);
    if (before != nullptr && before->live == 0) (void)Remove(before);
  }
  return added;
}

std::unique_ptr<Block> Store::State::Remove(Block* block) {
  const auto found =
      std::find_if(blocks.begin(), blocks.end(),
                   [block](const std::unique_ptr<Block>& each) { return each.get() == block; });
  std::unique_ptr<Block> removed = std::move(*found);
  blocks.erase(found);
  return removed;
}

bool Store::State::Take(Block* block, ItemKind kind, std::string_view body) {
  const ItemHeader header{static_cast<uint32_t>(kind), static_cast<uint32_t>(body.size())};
  char* const at = block->data.get() + block->used;
  std::memcpy(at, &header, kHeaderBytes);
  if (!body.empty()) std::memcpy(at + kHeaderBytes, body.data(), body.size());
  positions.push_back({block, static_cast<uint32_t>(block->used)});
  block->used += BytesOf(body.size());
  ++block->live;
  used += BytesOf(body.size());
  appended += body.size();
  return request.IsFulfilledBy(last_number(), body.size());
}

Store::Store(size_t cap_bytes, uint64_t max_event_bytes)
    : state_(new State(cap_bytes, max_event_bytes)) {}

Store::~Store() {
  state_->pool->Close();
  delete state_;
}

bool Store::Append(ItemKind kind, std::string_view body) {
  const bool is_events = kind == ItemKind::kEvents;
  const uint64_t count = is_events ? CountOf(body) : 0;
  const bool too_large =
      body.size() > std::min<size_t>(state_->limits.cap - kHeaderBytes, UINT32_MAX - kPageBytes);
  bool taken = false;
  bool notify = false;
  bool now_spent = false;
  {
    const MutexLock lock(&state_->mutex);
    if (is_events && body.size() > state_->event_bytes_left) {
      now_spent = !std::exchange(state_->spent, true);
    }
    // Read before the refusal: a block that is returned concurrently, as the last one, must count.
    const uint64_t returned = state_->pool->returned_blocks();
    const bool refused = too_large || state_->closed || (is_events && state_->spent);
    Block* const block =
        refused ? nullptr : state_->BlockFor(BytesOf(body.size()), state_->limits.Of(kind));
    taken = block != nullptr;
    if (taken) {
      notify = state_->Take(block, kind, body);
      state_->events += count;
      if (is_events) state_->event_bytes_left -= body.size();
    } else {
      ++state_->refused;
      // An item that never fits says nothing about the others.
      if (is_events && RoundUp(BytesOf(body.size()), kPageBytes) <= state_->limits.events) {
        state_->full = true;
        state_->lacked_space |= !refused;
        state_->returned_when_full = returned;
      }
    }
  }
  if (notify && state_->listener) state_->listener();
  if (now_spent && state_->spent_listener) state_->spent_listener();
  return taken;
}

bool Store::Full() const {
  const MutexLock lock(&state_->mutex);
  if (state_->closed || state_->spent) return true;
  if (!state_->full) return false;
  // Blocks are returned when their last owner releases them; this is only checked here. Not at the
  // first returned block: a store that takes one item and is full again would be asked for each.
  const size_t in_use = state_->pool->in_use_bytes();
  const StoreLimits& limits = state_->limits;
  if (state_->pool->returned_blocks() != state_->returned_when_full && in_use <= limits.events &&
      limits.events - in_use >= limits.reopen) {
    state_->full = false;
  }
  return state_->full;
}

std::vector<ItemView> Store::Items() const {
  const MutexLock lock(&state_->mutex);
  std::vector<ItemView> items;
  items.reserve(state_->positions.size());
  uint64_t number = state_->first_number;
  for (const Position& position : state_->positions) items.push_back(position.View(number++));
  return items;
}

std::vector<HeldItem> Store::Read(uint64_t first, size_t max_bytes) const {
  const MutexLock lock(&state_->mutex);
  std::vector<HeldItem> items;
  uint64_t number = std::max(first, state_->first_number);
  size_t bytes = 0;
  for (; number <= state_->last_number(); ++number) {
    const Position& position = state_->positions[number - state_->first_number];
    const ItemView view = position.View(number);
    bytes += view.body.size();
    if (bytes > max_bytes && !items.empty()) break;
    items.push_back({view, position.block->data});
  }
  return items;
}

void Store::Release(uint64_t through) {
  std::vector<std::unique_ptr<Block>> gone;  // freed without the lock
  const MutexLock lock(&state_->mutex);
  gone.reserve(state_->blocks.size());  // throws before anything has changed
  while (!state_->positions.empty() && state_->first_number <= through) {
    const Position position = state_->positions.front();
    state_->positions.pop_front();
    ++state_->first_number;
    state_->used -= BytesOf(position.header().size);
    Block* const block = position.block;
    if (--block->live > 0) continue;
    // The open block continues to be filled, unless there is no space for that: then it must not
    // block its own successor.
    if (block == state_->open_block) {
      if (block->size == state_->limits.block && !state_->full) continue;
      state_->open_block = nullptr;
    }
    gone.push_back(state_->Remove(block));
  }
}

void Store::Close() {
  std::vector<std::unique_ptr<Block>> gone;  // freed without the lock
  {
    const MutexLock lock(&state_->mutex);
    state_->closed = true;
    state_->first_number += state_->positions.size();
    state_->positions = {};
    state_->used = 0;
    state_->open_block = nullptr;
    gone.swap(state_->blocks);
  }
  gone.clear();
  state_->pool->Close();
}

void Store::SetListener(std::function<void()> listener) { state_->listener = std::move(listener); }

void Store::SetSpentListener(std::function<void()> listener) {
  state_->spent_listener = std::move(listener);
}

bool Store::NotifyFrom(uint64_t number, size_t min_bytes) {
  const MutexLock lock(&state_->mutex);
  const uint64_t last_number = state_->last_number();
  size_t missing = min_bytes;
  for (uint64_t n = std::max(number, state_->first_number); n <= last_number && missing > 0; ++n) {
    const size_t bytes = state_->positions[n - state_->first_number].header().size;
    missing -= std::min(missing, bytes);
  }
  if (number <= last_number && missing == 0) return true;
  state_->request = {number, missing};
  return false;
}

size_t Store::cap_bytes() const { return state_->limits.cap; }

uint64_t Store::last_number() const {
  const MutexLock lock(&state_->mutex);
  return state_->last_number();
}

uint64_t Store::events() const {
  const MutexLock lock(&state_->mutex);
  return state_->events;
}

size_t Store::appended_bytes() const {
  const MutexLock lock(&state_->mutex);
  return state_->appended;
}

size_t Store::used_bytes() const {
  const MutexLock lock(&state_->mutex);
  return state_->used;
}

size_t Store::mapped_bytes() const { return state_->pool->mapped_bytes(); }

uint64_t Store::refused_items() const {
  const MutexLock lock(&state_->mutex);
  return state_->refused;
}

bool Store::spent() const {
  const MutexLock lock(&state_->mutex);
  return state_->spent;
}

bool Store::lacked_space() const {
  const MutexLock lock(&state_->mutex);
  return state_->lacked_space;
}

}  // namespace jobscope::xspace
