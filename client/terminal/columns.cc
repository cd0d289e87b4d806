// SPDX-License-Identifier: Apache-2.0
#include "client/terminal/columns.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/text/utf8.h"

namespace jobscope {
namespace {

// The usual width of a terminal.
constexpr size_t kMaxColumns = 100;

}  // namespace

std::string AlignColumns(const std::vector<Row>& rows) {
  std::string text;
  for (const std::string& line : AlignedLines(rows)) absl::StrAppend(&text, line, "\n");
  return text;
}

std::vector<std::string> AlignedLines(const std::vector<Row>& rows) {
  if (rows.empty()) return {};
  std::vector<size_t> widths(rows[0].size(), 0);
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t column = 0; column < widths.size(); ++column) {
      // A column with only a heading is omitted.
      if (row == 0 && rows.size() > 1) continue;
      widths[column] = std::max(widths[column], Utf8Characters(rows[row][column]));
    }
  }
  for (size_t column = 0; column < widths.size(); ++column) {
    if (widths[column] == 0) continue;
    widths[column] = std::max(widths[column], Utf8Characters(rows[0][column]));
  }
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line;
    for (size_t column = 0; column < widths.size(); ++column) {
      if (widths[column] == 0) continue;
      if (!line.empty()) line += "  ";
      absl::StrAppend(&line, row[column],
                      std::string(widths[column] - Utf8Characters(row[column]), ' '));
    }
    line.resize(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string Wrapped(const std::string& text) {
  std::string wrapped;
  size_t width = 0;  // of the last line
  for (const absl::string_view entry : absl::StrSplit(text, "; ")) {
    const size_t more = Utf8Characters({entry.data(), entry.size()}) + 2;
    if (width > 0 && width + more > kMaxColumns) {
      wrapped += ";\n    ";
      width = 4;
    } else if (width > 0) {
      wrapped += "; ";
    }
    absl::StrAppend(&wrapped, entry);
    width += more;
  }
  return wrapped;
}

std::string Grouped(uint64_t number) {
  std::string text = absl::StrCat(number);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<size_t>(at), ",");
  }
  return text;
}

std::string ByteCount(uint64_t bytes) {
  if (bytes < 1024) return bytes == 0 ? "0" : absl::StrCat(bytes, " B");
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit < 5; ++unit) value /= 1024;
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

}  // namespace jobscope
