// SPDX-License-Identifier: Apache-2.0
//
// Knows what is read of items that are mapped from a file, so that their pages can be let go of.
#ifndef COMMON_XSPACE_ASSEMBLE_READ_METER_H_
#define COMMON_XSPACE_ASSEMBLE_READ_METER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace jobscope::xspace {

// Memory in units of what one page fault may map: the system maps what lies around in its cache,
// too, on Linux 6.18 up to a page table's 2 MiB (measured: 32 MiB that were read here and there
// took 240 MB). So chunks are counted, not bytes. Not thread-safe.
class ReadMeter {
 public:
  static constexpr size_t kChunkBytes = size_t{2} << 20;
  // 32 MiB: small beside what a client needs anyway, large enough that what is mapped once more
  // does not count.
  static constexpr size_t kMaxChunks = 16;

  // Takes chunks: addresses of their first bytes.
  using LetGo = std::function<void(const std::vector<uintptr_t>& chunks)>;

  explicit ReadMeter(LetGo let_go) : let_go_(std::move(let_go)) {}

  // Tells of bytes that are read now. May let go of those before.
  void Add(std::string_view bytes) {
    if (bytes.empty()) return;
    const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
    const uintptr_t last = (begin + bytes.size() - 1) / kChunkBytes * kChunkBytes;
    for (uintptr_t chunk = begin / kChunkBytes * kChunkBytes;; chunk += kChunkBytes) {
      AddChunk(chunk);
      if (chunk == last) return;
    }
  }

  // Of all that was read so far.
  void LetGoNow() {
    if (let_go_ && !chunks_.empty()) let_go_(chunks_);
    chunks_.clear();
  }

 private:
  void AddChunk(uintptr_t chunk) {
    // Mostly the one before.
    if (std::find(chunks_.rbegin(), chunks_.rend(), chunk) != chunks_.rend()) return;
    if (chunks_.size() >= kMaxChunks) LetGoNow();
    chunks_.push_back(chunk);
  }

  const LetGo let_go_;
  std::vector<uintptr_t> chunks_;
};

// Where items lie in memory that is nobody's to let go of, there is no meter.
inline void AddRead(ReadMeter* meter, std::string_view bytes) {
  if (meter != nullptr) meter->Add(bytes);
}

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_ASSEMBLE_READ_METER_H_
