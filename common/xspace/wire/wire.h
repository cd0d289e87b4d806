// SPDX-License-Identifier: Apache-2.0
//
// Encodes and decodes varints, eight bytes at a time.
#ifndef COMMON_XSPACE_WIRE_WIRE_H_
#define COMMON_XSPACE_WIRE_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace jobscope::xspace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are loaded as they lie in memory");

constexpr size_t kMaxVarintBytes = 10;

// Returns the tag byte of a field with a number below 16.
constexpr char VarintTag(uint32_t field) { return static_cast<char>(field << 3); }
constexpr char Fixed64Tag(uint32_t field) { return static_cast<char>((field << 3) | 1); }
constexpr char BytesTag(uint32_t field) { return static_cast<char>((field << 3) | 2); }

// Returns the encoded length in bytes, 1 to 10.
inline size_t VarintSize(uint64_t value) {
  const auto log2 = static_cast<size_t>(63 - __builtin_clzll(value | 1));
  return (log2 * 9 + 73) / 64;  // = log2 / 7 + 1 for all of 0..63
}

// Returns the size of a length-delimited field with a number below 16 and `content_bytes` of
// content.
inline uint64_t BytesFieldSize(uint64_t content_bytes) {
  return 1 + VarintSize(content_bytes) + content_bytes;
}

// A "spread" number below 2^56: its groups of seven bits lie in the eight bytes of a word, the
// lowest group in the lowest byte. This is a varint without its continuation bits. Spread numbers
// sort like the numbers themselves.
using Spread = uint64_t;
constexpr uint64_t kSpreadLimit = uint64_t{1} << 56;

// `value` must be below kSpreadLimit.
inline Spread ToSpread(uint64_t value) {
  value = (value & 0x000000000fffffff) | ((value & 0x00fffffff0000000) << 4);
  value = (value & 0x00003fff00003fff) | ((value & 0x0fffc0000fffc000) << 2);
  return (value & 0x007f007f007f007f) | ((value & 0x3f803f803f803f80) << 1);
}

inline uint64_t FromSpread(Spread spread) {
  spread = (spread & 0x007f007f007f007f) | ((spread & 0x7f007f007f007f00) >> 1);
  spread = (spread & 0x00003fff00003fff) | ((spread & 0x3fff00003fff0000) >> 2);
  return (spread & 0x000000000fffffff) | ((spread & 0x0fffffff00000000) >> 4);
}

// Adds two spread numbers. The sum is less than either if it is not below 2^56. Ones in the gaps of
// one number propagate carries.
inline Spread AddSpread(Spread a, Spread b) {
  return ((a | 0x8080808080808080) + b) & 0x7f7f7f7f7f7f7f7f;
}

// Writes at `out`, which must have kMaxVarintBytes of space; returns the byte after.
inline char* WriteVarint(char* out, uint64_t value) {
  if (value < 0x80) {
    *out = static_cast<char>(value);
    return out + 1;
  }
  if (value < kSpreadLimit) {
    const size_t size = VarintSize(value);
    const uint64_t word =
        ToSpread(value) | (0x8080808080808080 & ((uint64_t{1} << (8 * (size - 1))) - 1));
    std::memcpy(out, &word, sizeof(word));
    return out + size;
  }
  while (value >= 0x80) {
    *out++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<char>(value);
  return out;
}

inline void AppendVarint(uint64_t value, std::string* out) {
  char bytes[kMaxVarintBytes];
  out->append(bytes, static_cast<size_t>(WriteVarint(bytes, value) - bytes));
}

// Reads a varint of at most eight bytes from `in`, where eight bytes must be readable; returns the
// byte after, or null if it is longer.
inline const char* ReadSpread(const char* in, Spread* spread) {
  uint64_t word;
  std::memcpy(&word, in, sizeof(word));
  const uint64_t stops = ~word & 0x8080808080808080;
  if (stops == 0) return nullptr;
  *spread = word & (stops ^ (stops - 1)) & 0x7f7f7f7f7f7f7f7f;
  return in + (__builtin_ctzll(stops) >> 3) + 1;
}

// Reads any varint from [in, end); returns the byte after, or null if it is truncated or longer
// than ten bytes.
inline const char* ReadVarint(const char* in, const char* end, uint64_t* value) {
  uint64_t result = 0;
  for (uint32_t shift = 0; shift < 70 && in < end; shift += 7) {
    const auto byte = static_cast<uint8_t>(*in++);
    result |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = result;
      return in;
    }
  }
  return nullptr;
}

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_WIRE_WIRE_H_
