// SPDX-License-Identifier: Apache-2.0
//
// Encodes, validates, repairs and cuts UTF-8: protobuf strings must be UTF-8, and one bad byte in
// one name makes the whole trace unreadable for a protobuf parser.
#ifndef COMMON_TEXT_UTF8_H_
#define COMMON_TEXT_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace jobscope {

// Returns the length of the well-formed character that `text`, which is not empty, begins with; 0
// if there is none.
size_t Utf8Length(std::string_view text);

// Returns whether `byte` is not the first of a character.
inline bool IsUtf8Continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// Writes `character` at `to`, where there must be room for 4 bytes; returns how many it took.
// Surrogates, and what is above U+10FFFF, become '?'.
inline size_t EncodeUtf8(uint32_t character, char* to) {
  if (character > 0x10ffff || (character >= 0xd800 && character < 0xe000)) character = '?';
  if (character < 0x80) {
    to[0] = static_cast<char>(character);
    return 1;
  }
  const size_t bytes = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
  for (size_t i = bytes - 1; i > 0; --i) {
    to[i] = static_cast<char>(0x80 | (character & 0x3f));
    character >>= 6;
  }
  to[0] = static_cast<char>((0xf00 >> bytes & 0xf0) | character);
  return bytes;
}

// Returns the number of characters of `utf8`: its bytes that continue none.
size_t Utf8Characters(std::string_view utf8);

// Returns whether `text` is well-formed UTF-8 (no overlong forms, no surrogates, nothing above
// U+10FFFF).
bool IsUtf8(std::string_view text);

// Returns `text` itself if it is UTF-8; otherwise a copy in `*scratch` with each offending byte
// replaced by '?'.
std::string_view ToUtf8(std::string_view text, std::string* scratch);

// Returns the first `max_bytes` of ToUtf8, without a part of a character.
std::string CleanUtf8(std::string_view text, size_t max_bytes);

// Returns the longest prefix of `utf8` of at most `max_bytes` that cuts no character. Where that is
// not UTF-8, up to 3 bytes less than `max_bytes`.
std::string_view Utf8Prefix(std::string_view utf8, size_t max_bytes);

}  // namespace jobscope

#endif  // COMMON_TEXT_UTF8_H_
