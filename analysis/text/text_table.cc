// SPDX-License-Identifier: Apache-2.0
#include "analysis/text/text_table.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/text/foreign_text.h"
#include "common/text/utf8.h"

namespace jobscope::analysis {
namespace {

constexpr std::string_view kBetween = "  ";

}  // namespace

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

void TextTable::Add(std::vector<std::string> cells) {
  for (size_t c = 0; c < cells.size(); ++c) {
    if (columns_[c].max_columns > 0) cells[c] = OneLineInColumns(cells[c], columns_[c].max_columns);
  }
  rows_.push_back(std::move(cells));
}

std::string TextTable::Text() const {
  std::vector<size_t> widths;
  std::vector<std::string> titles;
  for (size_t c = 0; c < columns_.size(); ++c) {
    titles.push_back(columns_[c].title);
    size_t width = Utf8Characters(columns_[c].title);
    for (const std::vector<std::string>& row : rows_) {
      width = std::max(width, Utf8Characters(row[c]));
    }
    widths.push_back(width);
  }
  const size_t line_width =
      std::accumulate(widths.begin(), widths.end(), kBetween.size() * (widths.size() - 1));
  if (line_width > kMaxLine && widths.front() > kMinColumns) {
    const size_t too_much = std::min(line_width - kMaxLine, widths.front() - kMinColumns);
    widths.front() -= too_much;
  }
  std::string text;
  const auto print = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t c = 0; c < cells.size(); ++c) {
      if (c > 0) line += kBetween;
      const std::string cell = c == 0 ? OneLineInColumns(cells[c], widths[c]) : cells[c];
      const std::string blanks(widths[c] - Utf8Characters(cell), ' ');
      line += columns_[c].max_columns == 0 ? blanks + cell : cell + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  print(titles);
  for (const std::vector<std::string>& row : rows_) print(row);
  return text;
}

std::string Labelled(const std::string& label, const std::string& text) {
  constexpr size_t kLabelColumns = 9;
  std::string line = label + std::string(kLabelColumns - label.size(), ' ');
  std::string result;
  size_t used = 0;
  const std::string clean = OneLineInColumns(text, 2000);
  for (size_t at = 0; at < clean.size();) {
    size_t end = clean.find(' ', at);
    if (end == std::string::npos) end = clean.size();
    std::string word = clean.substr(at, end - at);
    at = end + 1;
    if (used > 0 && line.size() + 1 + word.size() > TextTable::kMaxLine) {
      absl::StrAppend(&result, line, "\n");
      line = std::string(kLabelColumns, ' ');
      used = 0;
    }
    word = OneLineInColumns(word, TextTable::kMaxLine - kLabelColumns);
    if (used++ > 0) line += ' ';
    line += word;
  }
  return absl::StrCat(result, line, "\n");
}

}  // namespace jobscope::analysis
