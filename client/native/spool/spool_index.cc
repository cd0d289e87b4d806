// SPDX-License-Identifier: Apache-2.0
#include "client/native/spool/spool_index.h"

#include <algorithm>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace jobscope {

// A memory budget shared by several indexes.
class SpoolIndex::Memory {
 public:
  // For captures that still run: they may hold their memory for hours, and must not delay others.
  static Memory* WhileRecording() {
    static auto* const memory = new Memory(uint64_t{64} << 20);
    return memory;
  }
  static Memory* AtTheEnd() {
    static auto* const memory = new Memory(uint64_t{1} << 30);
    return memory;
  }

  bool TryTake(uint64_t bytes) {
    const absl::MutexLock lock(&mutex_);
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

  // Blocks until the memory is available. Returns the amount taken: at most the whole budget.
  uint64_t Await(uint64_t bytes) {
    bytes = std::min(bytes, all_);
    const auto room = [this, bytes]()
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return bytes <= left_; };
    const absl::MutexLock lock(&mutex_, absl::Condition(&room));
    left_ -= bytes;
    return bytes;
  }

  void GiveBack(uint64_t bytes) {
    const absl::MutexLock lock(&mutex_);
    left_ += bytes;
  }

 private:
  explicit Memory(uint64_t bytes) : all_(bytes), left_(bytes) {}

  const uint64_t all_;
  absl::Mutex mutex_;
  uint64_t left_ ABSL_GUARDED_BY(mutex_);
};

SpoolIndex::SpoolIndex(const Spool* spool) : items_(spool) {}

SpoolIndex::~SpoolIndex() {
  if (memory_ != nullptr) memory_->GiveBack(held_bytes_);
}

bool SpoolIndex::Follow(uint64_t index_bytes) {
  if (index_bytes > held_bytes_) {
    if (!Memory::WhileRecording()->TryTake(index_bytes - held_bytes_)) return false;
    memory_ = Memory::WhileRecording();
    held_bytes_ = index_bytes;
  }
  return Advance().ok();
}

absl::Status SpoolIndex::Complete(uint64_t index_bytes) {
  if (memory_ == nullptr) {
    memory_ = Memory::AtTheEnd();
    held_bytes_ = memory_->Await(index_bytes);
  }
  return Advance();
}

absl::Status SpoolIndex::Advance() {
  return items_.Advance([this](const xspace::ItemView& item) {
    (void)indexer_.Add(item);  // kStop: errors are in the index
  });
}

}  // namespace jobscope
