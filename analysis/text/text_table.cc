// SPDX-License-Identifier: Apache-2.0
#include "analysis/text/text_table.h"

#include <algorithm>
#include <utility>

#include "common/text/foreign_text.h"

namespace jobscope::analysis {
namespace {

// Counts characters, not bytes.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  }));
}

}  // namespace

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

void TextTable::Add(std::vector<std::string> cells) {
  for (size_t c = 0; c < cells.size(); ++c) {
    cells[c] = OneLineInColumns(cells[c], columns_[c].max_columns);
  }
  rows_.push_back(std::move(cells));
}

std::string TextTable::Text() const {
  std::vector<size_t> widths;
  std::vector<std::string> titles;
  for (size_t c = 0; c < columns_.size(); ++c) {
    titles.push_back(columns_[c].title);
    size_t width = Width(columns_[c].title);
    for (const std::vector<std::string>& row : rows_) width = std::max(width, Width(row[c]));
    widths.push_back(width);
  }
  std::string text;
  const auto print = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t c = 0; c < cells.size(); ++c) {
      if (c > 0) line += "  ";
      const std::string blanks(widths[c] - Width(cells[c]), ' ');
      line += columns_[c].right ? blanks + cells[c] : cells[c] + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  print(titles);
  for (const std::vector<std::string>& row : rows_) print(row);
  return text;
}

}  // namespace jobscope::analysis
