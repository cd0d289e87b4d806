// SPDX-License-Identifier: Apache-2.0
#ifndef ANALYSIS_TEXT_TEXT_TABLE_H_
#define ANALYSIS_TEXT_TEXT_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace jobscope::analysis {

// Formats a table for a terminal: columns are as wide as their contents, up to a limit, beyond
// which contents are cut in the middle. Control characters are replaced.
class TextTable {
 public:
  struct Column {
    std::string title;
    size_t max_columns = 0;
    bool right = true;  // aligned right, for numbers
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

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TEXT_TEXT_TABLE_H_
