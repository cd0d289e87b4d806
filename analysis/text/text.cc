// SPDX-License-Identifier: Apache-2.0
#include "analysis/text/text.h"

#include "absl/strings/str_cat.h"
#include "common/xspace/wire/utf8.h"

namespace jobscope::analysis {
namespace {

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

}  // namespace

std::string CutText(std::string_view text, size_t max_bytes) {
  std::string scratch;
  const std::string_view utf8 = xspace::ToUtf8(text, &scratch);
  size_t size = utf8.size();
  if (size > max_bytes) {
    size = max_bytes;
    while (size > 0 && IsContinuation(utf8[size])) --size;
  }
  return std::string(utf8.substr(0, size));
}

std::string TerminalText(std::string_view text, size_t max_columns) {
  std::string line = CutText(text, text.size() * 3 + 1);
  size_t columns = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const auto byte = static_cast<unsigned char>(line[i]);
    if (byte < 0x20 || byte == 0x7f) line[i] = '?';
    // C1 controls, which some terminals obey: U+0080 to U+009F are 0xc2 and a byte below 0xa0.
    if (byte == 0xc2 && i + 1 < line.size() && static_cast<unsigned char>(line[i + 1]) < 0xa0) {
      line.replace(i, 2, "?");
    }
    if (!IsContinuation(line[i])) ++columns;
  }
  if (columns <= max_columns || max_columns < 5) return line;
  // Keeps the begin and the end, because names of kernels differ at both.
  const size_t front = (max_columns - 2) / 2;
  const size_t back = max_columns - 2 - front;
  size_t at = 0;
  for (size_t seen = 0; at < line.size(); ++at) {
    if (!IsContinuation(line[at]) && seen++ == front) break;
  }
  size_t from = line.size();
  for (size_t seen = 0; from > at && seen < back;) {
    if (!IsContinuation(line[--from])) ++seen;
  }
  return absl::StrCat(line.substr(0, at), "..", line.substr(from));
}

}  // namespace jobscope::analysis
