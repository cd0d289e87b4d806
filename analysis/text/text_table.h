// SPDX-License-Identifier: Apache-2.0
#ifndef ANALYSIS_TEXT_TEXT_TABLE_H_
#define ANALYSIS_TEXT_TEXT_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace jobscope::analysis {

// Formats a table for a terminal: columns are as wide as their contents. Texts are cut in the
// middle; figures never are. Control characters are replaced.
class TextTable {
 public:
  // Lines are at most so long: the first column shrinks, down to kMinColumns.
  static constexpr size_t kMaxLine = 100;
  static constexpr size_t kMinColumns = 8;

  struct Column {
    std::string title;
    size_t max_columns = 0;  // of texts, aligned left; 0: figures, aligned right
  };

  explicit TextTable(std::vector<Column> columns);
  // Adds a row with one cell per column.
  void Add(std::vector<std::string> cells);
  size_t rows() const { return rows_.size(); }
  std::string Text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Returns lines with `text` behind a label of at most 9 columns, wrapped at blanks, of at most
// TextTable::kMaxLine columns. Control characters are replaced.
std::string Labelled(const std::string& label, const std::string& text);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TEXT_TEXT_TABLE_H_
