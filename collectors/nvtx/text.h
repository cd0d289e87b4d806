// SPDX-License-Identifier: Apache-2.0
//
// Reads texts of NVTX calls: of any length, in bytes or wide characters, or missing.
#ifndef COLLECTORS_NVTX_TEXT_H_
#define COLLECTORS_NVTX_TEXT_H_

#include <cstddef>
#include <cstdint>

namespace jobscope::nvtx {

// What the recorder keeps of a name. A longer one is cut between two characters and ends in "…".
inline constexpr size_t kMaxTextBytes = 127;

// Holds a text of at most kMaxTextBytes. It refers to the caller's memory if possible, so it is
// valid only during the call.
class Text {
 public:
  Text() = default;
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  // Null is an empty text. Bytes are assumed to be UTF-8; the trace writer replaces invalid ones.
  void SetBytes(const char* bytes);
  // Wide characters are UTF-32; invalid ones become '?'.
  void SetWide(const wchar_t* wide);
  // Sets a text that is known to fit, with its hash.
  void SetKnown(const char* bytes, size_t size, uint64_t hash);

  const char* data() const { return data_; }
  size_t size() const { return size_; }
  uint64_t hash() const { return hash_; }
  bool empty() const { return size_ == 0; }
  bool Equals(const char* stored, size_t size) const;
  // `to` has space for kMaxTextBytes + 1.
  void CopyTo(char* to) const;

 private:
  const char* data_ = "";
  size_t size_ = 0;
  uint64_t hash_ = 0;
  char own_[kMaxTextBytes + 1];
};

uint64_t HashBytes(const char* bytes, size_t size);
inline uint64_t MixHash(uint64_t a, uint64_t b) {
  uint64_t mixed = (a ^ b) * 0x9E3779B97F4A7C15u;
  mixed ^= mixed >> 32;
  return mixed * 0xD6E8FEB86659FD93u;
}

}  // namespace jobscope::nvtx

#endif  // COLLECTORS_NVTX_TEXT_H_
