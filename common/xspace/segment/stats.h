// SPDX-License-Identifier: Apache-2.0
//
// Encodes the XStat messages of an XEvent, an XPlane or an XEventMetadata.
#ifndef COMMON_XSPACE_SEGMENT_STATS_H_
#define COMMON_XSPACE_SEGMENT_STATS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace jobscope::xspace {

// Field number of the stats in their container.
enum class StatsOf : uint32_t { kEvent = 4, kEventMetadata = 5, kPlane = 6 };

// Appends encoded stats to a buffer that is reused between events. Not thread-safe. `id` comes from
// Names::Stat; 0 is skipped.
class StatsEncoder {
 public:
  explicit StatsEncoder(StatsOf container) : container_(container) {}

  void Int64(uint64_t id, int64_t value);
  void Uint64(uint64_t id, uint64_t value);
  void Double(uint64_t id, double value);            // "nan", "inf", "-inf": as text
  void String(uint64_t id, std::string_view value);  // invalid UTF-8 is replaced by '?'
  void Bytes(uint64_t id, std::string_view value);
  void Ref(uint64_t id, uint64_t value_id);
  // Appends stats that are encoded already, for the same container.
  void Encoded(std::string_view stats);

  std::string_view bytes() const { return {buffer_.data(), size_}; }
  void Clear() { size_ = 0; }

 private:
  void Varint(uint64_t id, uint32_t field, uint64_t value);
  void Text(uint64_t id, uint32_t field, std::string_view value);

  // Returns the end of the encoded stats, with space for `bytes` more.
  char* Room(size_t bytes) {
    if (buffer_.size() - size_ < bytes) buffer_.resize(2 * (size_ + bytes));
    return buffer_.data() + size_;
  }
  void EndAt(const char* out) { size_ = static_cast<size_t>(out - buffer_.data()); }

  const StatsOf container_;
  std::vector<char> buffer_;  // never shrinks
  size_t size_ = 0;
};

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_SEGMENT_STATS_H_
