// SPDX-License-Identifier: Apache-2.0
#include "common/text/foreign_text.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/text/utf8.h"

namespace jobscope {
namespace {

constexpr std::string_view kCut = "...";
constexpr std::string_view kMiddle = "..";

// Returns the code point of the well-formed character that `text` is.
uint32_t CodePoint(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (text.size() == 1) return first;
  uint32_t character = first & (0xffu >> (text.size() + 1));
  for (const char byte : text.substr(1)) {
    character = character << 6 | (static_cast<unsigned char>(byte) & 0x3fu);
  }
  return character;
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
    const size_t length = Utf8Length(text);
    std::string_view piece = text.substr(0, std::max<size_t>(length, 1));
    text.remove_prefix(piece.size());
    if (length == 0) {
      piece = "?";
    } else if (!MayBePrinted(CodePoint(piece))) {
      piece = " ";
    }
    if (line.size() + piece.size() > max_bytes) return line.append(kCut);
    line.append(piece);
  }
  return line;
}

std::string OneLineInColumns(std::string_view text, size_t max_columns) {
  const std::string line = OneLine(text, text.size());
  if (Utf8Characters(line) <= max_columns || max_columns < 5) return line;
  const auto begins = [](char byte) { return !IsUtf8Continuation(byte); };
  const size_t front = (max_columns - kMiddle.size()) / 2;
  const size_t back = max_columns - kMiddle.size() - front;
  size_t at = 0;
  for (size_t seen = 0; at < line.size(); ++at) {
    if (begins(line[at]) && seen++ == front) break;
  }
  size_t from = line.size();
  for (size_t seen = 0; from > at && seen < back;) {
    if (begins(line[--from])) ++seen;
  }
  return line.substr(0, at).append(kMiddle).append(line, from);
}

std::string CutText(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  return std::string(Utf8Prefix(text, max_bytes)).append(kCut);
}

std::string EscapeControls(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  while (!json.empty()) {
    const std::string_view piece = json.substr(0, std::max<size_t>(Utf8Length(json), 1));
    json.remove_prefix(piece.size());
    const uint32_t character = CodePoint(piece);
    if (character < 0x7f || MayBePrinted(character)) {
      text.append(piece);
    } else {
      absl::StrAppend(&text, "\\u", absl::Hex(character, absl::kZeroPad4));
    }
  }
  return text;
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
