// SPDX-License-Identifier: Apache-2.0
#include "analysis/output/html.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace jobscope::analysis {

std::string EscapeHtml(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        // HTML allows no other control characters.
        escaped += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return escaped;
}

std::string EscapeScript(std::string json) {
  std::string escaped;
  escaped.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      escaped += "\\u003c";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

HtmlTable::HtmlTable(std::string id, std::string caption, std::vector<Column> columns, bool filter)
    : id_(std::move(id)),
      caption_(std::move(caption)),
      columns_(std::move(columns)),
      filter_(filter) {}

void HtmlTable::Add(const std::vector<std::string>& cells) {
  rows_ += "<tr>";
  for (size_t c = 0; c < cells.size(); ++c) {
    absl::StrAppend(&rows_, columns_[c].kind == kText ? "<td class=text>" : "<td>",
                    EscapeHtml(cells[c]), "</td>");
  }
  rows_ += "</tr>\n";
}

std::string HtmlTable::Markup() const {
  std::string markup;
  if (filter_) {
    absl::StrAppend(&markup,
                    "<input type=search hidden placeholder=\"filter by text\" aria-label=\"filter ",
                    EscapeHtml(caption_), "\" data-table=", id_, ">\n");
  }
  absl::StrAppend(&markup, "<div class=scroll><table class=sortable id=", id_, "><caption>",
                  EscapeHtml(caption_), "</caption><thead><tr>");
  for (const Column& column : columns_) {
    absl::StrAppend(&markup, column.kind == kText ? "<th scope=col class=text>" : "<th scope=col>",
                    EscapeHtml(column.title), "</th>");
  }
  absl::StrAppend(&markup, "</tr></thead><tbody>\n", rows_, "</tbody></table></div>\n");
  return markup;
}

}  // namespace jobscope::analysis
