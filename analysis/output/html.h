// SPDX-License-Identifier: Apache-2.0
//
// Generates pieces of HTML. Escapes texts of traces, which never become markup.
#ifndef ANALYSIS_OUTPUT_HTML_H_
#define ANALYSIS_OUTPUT_HTML_H_

#include <string>
#include <string_view>
#include <vector>

namespace jobscope::analysis {

// Escapes `text` for the content of an element or a quoted attribute.
std::string EscapeHtml(std::string_view text);

// Escapes JSON for the content of a <script>: it cannot contain "</script>".
std::string EscapeScript(std::string json);

// Text is aligned left and may break; numbers are aligned right.
enum ColumnKind { kNumbers, kText };

// Writes a table that readers can sort, and filter if `filter`, by the page's script.
class HtmlTable {
 public:
  struct Column {
    std::string title;
    ColumnKind kind = kNumbers;
  };
  HtmlTable(std::string id, std::string caption, std::vector<Column> columns, bool filter = false);
  void Add(const std::vector<std::string>& cells);
  bool empty() const { return rows_.empty(); }
  std::string Markup() const;

 private:
  std::string id_;
  std::string caption_;
  std::vector<Column> columns_;
  bool filter_;
  std::string rows_;
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_OUTPUT_HTML_H_
