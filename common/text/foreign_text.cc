// SPDX-License-Identifier: Apache-2.0
#include "common/text/foreign_text.h"

#include <algorithm>
#include <cstdint>

namespace jobscope {
namespace {

constexpr std::string_view kCut = "...";

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Returns the length of the first character and stores its code point; 0 if it is not UTF-8.
size_t ReadCharacter(std::string_view text, uint32_t* character) {
  const auto first = static_cast<unsigned char>(text[0]);
  *character = first;
  if (first < 0x80) return 1;
  // Two-byte characters begin with 0xc2: 0xc0 and 0xc1 would be longer ways to write ASCII.
  const size_t length = first >= 0xf0 && first <= 0xf4  ? 4
                        : (first & 0xf0) == 0xe0        ? 3
                        : first >= 0xc2 && first < 0xe0 ? 2
                                                        : 0;
  if (length == 0 || text.size() < length) return 0;
  *character = first & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(text[i])) return 0;
    *character = *character << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
  }
  const bool overlong =
      (length == 3 && *character < 0x800) || (length == 4 && *character < 0x10000);
  const bool surrogate = *character >= 0xd800 && *character <= 0xdfff;
  return overlong || surrogate || *character > 0x10ffff ? 0 : length;
}

bool MayBePrinted(uint32_t character) {
  if (character < 0x20 || (character >= 0x7f && character <= 0x9f)) return false;
  if (character >= 0x2028 && character <= 0x202e) return false;  // separators, directions
  return character < 0x2066 || character > 0x2069;               // directions
}

}  // namespace

std::string OneLine(std::string_view text, size_t max_bytes) {
  std::string line;
  line.reserve(std::min(text.size(), max_bytes));
  while (!text.empty()) {
    uint32_t character = 0;
    const size_t length = ReadCharacter(text, &character);
    std::string_view piece = text.substr(0, std::max<size_t>(length, 1));
    text.remove_prefix(piece.size());
    if (length == 0) piece = "?";
    if (length != 0 && !MayBePrinted(character)) piece = " ";
    if (line.size() + piece.size() > max_bytes) return line.append(kCut);
    line.append(piece);
  }
  return line;
}

std::string CutText(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t size = max_bytes;
  while (size > 0 && IsContinuation(text[size])) --size;
  return std::string(text.substr(0, size)).append(kCut);
}

std::string Printable(absl::string_view text, size_t max_bytes) {
  std::string result(text.substr(0, max_bytes));
  for (char& c : result) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  if (text.size() > max_bytes) result += kCut;
  return result;
}

}  // namespace jobscope
