// SPDX-License-Identifier: Apache-2.0
//
// Counts what has been read of items mapped from a file, so that their pages can be released.
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

// Counts the 2 MiB chunks of a mapped file that have been read, and reports them for release.
// Counts chunks, not bytes, because one page fault also maps what lies nearby in the page cache, on
// Linux 6.18 up to a page table's 2 MiB (measured: reading 32 MiB at scattered places took 240 MB).
// Not thread-safe.
class ReadMeter {
 public:
  static constexpr size_t kChunkBytes = size_t{2} << 20;
  // 32 MiB: small compared with the client's other memory, large enough to make repeated faults
  // negligible.
  static constexpr size_t kMaxChunks = 16;

  // Receives the start addresses of chunks.
  using ReleasePages = std::function<void(const std::vector<uintptr_t>& chunks)>;

  explicit ReadMeter(ReleasePages release_pages) : release_pages_(std::move(release_pages)) {}

  // Counts bytes that are read now. May report earlier ones for release.
  void Add(std::string_view bytes) {
    if (bytes.empty()) return;
    const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
    const uintptr_t last = (begin + bytes.size() - 1) / kChunkBytes * kChunkBytes;
    for (uintptr_t chunk = begin / kChunkBytes * kChunkBytes;; chunk += kChunkBytes) {
      AddChunk(chunk);
      if (chunk == last) return;
    }
  }

  // Reports everything read so far for release.
  void ReleaseNow() {
    if (release_pages_ && !chunks_.empty()) release_pages_(chunks_);
    chunks_.clear();
  }

 private:
  void AddChunk(uintptr_t chunk) {
    // Usually the previous one.
    if (std::find(chunks_.rbegin(), chunks_.rend(), chunk) != chunks_.rend()) return;
    if (chunks_.size() >= kMaxChunks) ReleaseNow();
    chunks_.push_back(chunk);
  }

  const ReleasePages release_pages_;
  std::vector<uintptr_t> chunks_;
};

// There is no meter if the items lie in memory that cannot be released.
inline void AddRead(ReadMeter* meter, std::string_view bytes) {
  if (meter != nullptr) meter->Add(bytes);
}

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_ASSEMBLE_READ_METER_H_
