// SPDX-License-Identifier: Apache-2.0
#include "common/text/utf8.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace jobscope {

size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const auto tail = [&](size_t i, uint8_t low, uint8_t high) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return tail(1, 0x80, 0xbf) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const uint8_t low = first == 0xe0 ? 0xa0 : 0x80;   // no overlong forms
    const uint8_t high = first == 0xed ? 0x9f : 0xbf;  // no surrogates
    return tail(1, low, high) && tail(2, 0x80, 0xbf) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const uint8_t low = first == 0xf0 ? 0x90 : 0x80;
    const uint8_t high = first == 0xf4 ? 0x8f : 0xbf;
    return tail(1, low, high) && tail(2, 0x80, 0xbf) && tail(3, 0x80, 0xbf) ? 4 : 0;
  }
  return 0;
}

size_t Utf8Characters(std::string_view utf8) {
  return utf8.size() -
         static_cast<size_t>(std::count_if(utf8.begin(), utf8.end(), IsUtf8Continuation));
}

namespace {

// Returns the index of the first byte that does not begin a well-formed sequence.
size_t ValidPrefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t word;
    while (at + sizeof(word) <= text.size()) {
      std::memcpy(&word, text.data() + at, sizeof(word));
      if ((word & 0x8080808080808080) != 0) break;
      at += sizeof(word);
    }
    if (at == text.size()) break;
    const size_t length = Utf8Length(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

}  // namespace

bool IsUtf8(std::string_view text) { return ValidPrefix(text) == text.size(); }

std::string_view ToUtf8(std::string_view text, std::string* scratch) {
  size_t valid = ValidPrefix(text);
  if (valid == text.size()) return text;
  scratch->assign(text.data(), valid);
  while (valid < text.size()) {
    scratch->push_back('?');
    text.remove_prefix(valid + 1);
    valid = ValidPrefix(text);
    scratch->append(text.data(), valid);
  }
  return *scratch;
}

std::string CleanUtf8(std::string_view text, size_t max_bytes) {
  std::string scratch;
  return std::string(Utf8Prefix(ToUtf8(text, &scratch), max_bytes));
}

std::string_view Utf8Prefix(std::string_view utf8, size_t max_bytes) {
  if (utf8.size() <= max_bytes) return utf8;
  constexpr size_t kMaxContinuations = 3;
  for (size_t back = 0; back <= std::min(kMaxContinuations, max_bytes); ++back) {
    const size_t size = max_bytes - back;
    if (!IsUtf8Continuation(utf8[size])) return utf8.substr(0, size);
  }
  return utf8.substr(0, max_bytes);
}

}  // namespace jobscope
