// SPDX-License-Identifier: Apache-2.0
#include "analysis/output/html_maps.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/output/html.h"
#include "analysis/statistics/statistics.h"
#include "analysis/statistics/thresholds.h"
#include "analysis/text/milliseconds.h"

namespace jobscope::analysis {
namespace {

constexpr size_t kShades = 10;
constexpr size_t kMaxMapRows = 128;
constexpr size_t kMaxColumns = 160;
constexpr size_t kMapRowPixels = 16;  // height of a row, if there are few, and of a name
constexpr size_t kMaxNamedRows = 32;  // of more rows, only every n-th has a name

struct Grid {
  std::vector<std::string> titles;      // of all workers: of a row, `rows_per_cell` of them
  std::vector<bool> is_of_verdict;      // [row]: the verdict names one of its workers
  std::vector<std::vector<double>> ms;  // [row][column]
  size_t rows_per_cell = 1;
  size_t columns_per_cell = 1;
  bool common = false;  // columns are common steps
};

Grid OwnTimesOf(const Report& report) {
  Grid all;
  const Alignment& alignment = report.alignment;
  all.common = alignment.common() >= kMinSteps;
  std::vector<bool> is_named(report.workers.size(), false);
  for (const size_t w : report.verdict.workers) is_named[w] = true;
  for (size_t i = 0; i < alignment.workers.size(); ++i) {
    const WorkerRow& row = report.workers[alignment.workers[i]];
    std::vector<double> own;
    if (all.common) {
      for (const size_t step : alignment.steps[i]) {
        own.push_back(static_cast<double>(row.view.own_ns(step)) / kNsPerMs);
      }
    } else {
      for (size_t step = 0; step < row.view.steps.size(); ++step) {
        own.push_back(static_cast<double>(row.view.own_ns(step)) / kNsPerMs);
      }
    }
    all.titles.push_back(TitleOf(row));
    all.is_of_verdict.push_back(is_named[alignment.workers[i]]);
    all.ms.push_back(std::move(own));
  }
  return all;
}

// Reduces the grid to what fits; each cell shows the largest value that it stands for.
Grid Thinned(const Grid& all) {
  Grid grid;
  size_t columns = 0;
  for (const std::vector<double>& row : all.ms) columns = std::max(columns, row.size());
  grid.titles = all.titles;
  grid.common = all.common;
  grid.rows_per_cell = (all.ms.size() + kMaxMapRows - 1) / kMaxMapRows;
  grid.columns_per_cell = (columns + kMaxColumns - 1) / kMaxColumns;
  if (grid.rows_per_cell == 0 || grid.columns_per_cell == 0) return grid;
  for (size_t r = 0; r < all.ms.size(); ++r) {
    const size_t cell_row = r / grid.rows_per_cell;
    if (cell_row == grid.ms.size()) {
      grid.ms.emplace_back();
      grid.is_of_verdict.push_back(false);
    }
    if (all.is_of_verdict[r]) grid.is_of_verdict[cell_row] = true;
    std::vector<double>& cells = grid.ms[cell_row];
    for (size_t c = 0; c < all.ms[r].size(); ++c) {
      const size_t cell = c / grid.columns_per_cell;
      if (cell >= cells.size()) cells.resize(cell + 1, 0);
      cells[cell] = std::max(cells[cell], all.ms[r][c]);
    }
  }
  return grid;
}

// A name beside the map.
struct RowName {
  size_t row = 0;
  std::string text;
  bool is_of_verdict = false;
};

// Returns the name of rows [begin, end): "rank 8 (node1)" or "rank 8 (node1) to rank 15 (node1)".
std::string NameOfRows(const Grid& grid, size_t begin, size_t end) {
  const size_t first = begin * grid.rows_per_cell;
  const size_t last = std::min(end * grid.rows_per_cell, grid.titles.size()) - 1;
  if (first == last) return grid.titles[first];
  return absl::StrCat(grid.titles[first], " to ", grid.titles[last]);
}

// Returns the names beside the map, from above: of the verdict's rows, and of every `every`-th row
// that has room between these.
std::vector<RowName> NamesOf(const Grid& grid, double row_pixels, size_t every) {
  const size_t rows = grid.ms.size();
  const auto has_room = [row_pixels](size_t above, size_t below) {
    return static_cast<double>(below - above) * row_pixels >= kMapRowPixels;
  };
  std::vector<RowName> names;
  for (size_t row = 0; row < rows;) {
    size_t end = row + 1;
    if (grid.is_of_verdict[row]) {
      // Rows that are too low for a name of their own share one.
      while (end < rows && grid.is_of_verdict[end] && !has_room(row, end)) ++end;
      const std::string text = NameOfRows(grid, row, end);
      if (names.empty() || has_room(names.back().row, row)) {
        names.push_back({row, text, /*is_of_verdict=*/true});
      } else {
        absl::StrAppend(&names.back().text, ", ", text);
      }
    }
    row = end;
  }
  const std::vector<RowName> of_verdict = names;
  for (size_t row = 0; row < rows; row += every) {
    const bool fits = std::all_of(of_verdict.begin(), of_verdict.end(), [&](const RowName& other) {
      return has_room(std::min(other.row, row), std::max(other.row, row));
    });
    if (fits) names.push_back({row, NameOfRows(grid, row, row + 1), /*is_of_verdict=*/false});
  }
  std::sort(names.begin(), names.end(),
            [](const RowName& a, const RowName& b) { return a.row < b.row; });
  return names;
}

// Puts each name beside the middle of its row.
std::string NamesMarkup(const std::vector<RowName>& names, double row_pixels) {
  std::string markup = "<div class=\"quiet rows\">";
  double used_pixels = 0;
  for (const RowName& name : names) {
    const double middle_pixels = (static_cast<double>(name.row) + 0.5) * row_pixels;
    const double top_pixels = middle_pixels - 0.5 * kMapRowPixels;
    const std::string text = EscapeHtml(name.text);
    absl::StrAppendFormat(&markup, "<div style=\"margin-top:%.2fpx\" title=\"%s\">%s%s%s</div>",
                          top_pixels - used_pixels, text, name.is_of_verdict ? "<b>" : "", text,
                          name.is_of_verdict ? "</b>" : "");
    used_pixels = top_pixels + kMapRowPixels;
  }
  return absl::StrCat(markup, "</div>");
}

void AddCell(std::string* path, size_t column, size_t row) {
  absl::StrAppend(path, "M", column, " ", row, "h1v1h-1z");
}

}  // namespace

std::string HeatMap(const Report& report) {
  const Grid grid = Thinned(OwnTimesOf(report));
  std::vector<double> values;
  size_t columns = 0;
  for (const std::vector<double>& row : grid.ms) {
    values.insert(values.end(), row.begin(), row.end());
    columns = std::max(columns, row.size());
  }
  if (values.empty()) return {};
  const double low = Quantile(values, 0.05);
  const double high = std::max(Quantile(values, 0.98), low * 1.2);
  std::array<std::string, kShades> shades;
  for (size_t r = 0; r < grid.ms.size(); ++r) {
    for (size_t c = 0; c < grid.ms[r].size(); ++c) {
      const double part = high > low ? (grid.ms[r][c] - low) / (high - low) : 0;
      const auto shade =
          static_cast<size_t>(std::clamp(part * kShades, 0.0, static_cast<double>(kShades - 1)));
      AddCell(&shades[shade], c, r);
    }
  }
  // One unit per cell; the names are in a separate list beside it.
  const size_t rows = grid.ms.size();
  const size_t height = std::min(rows, kMaxNamedRows) * kMapRowPixels;
  const double row_pixels = static_cast<double>(height) / static_cast<double>(rows);
  const size_t every = (rows + kMaxNamedRows - 1) / kMaxNamedRows;
  std::string svg = absl::StrFormat(
      "<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=none style=\"height:%dpx\" role=img "
      "aria-label=\"own time of each worker in each step\">\n",
      columns, rows, height);
  for (size_t s = 0; s < kShades; ++s) {
    if (!shades[s].empty()) absl::StrAppend(&svg, "<path class=h", s, " d=\"", shades[s], "\"/>\n");
  }
  svg += "</svg>\n";
  const auto of_verdict = std::count(grid.is_of_verdict.begin(), grid.is_of_verdict.end(), true);
  const bool has_others = of_verdict > 0 && static_cast<size_t>(of_verdict) < rows;
  std::string key;
  for (size_t s = 0; s < kShades; ++s) {
    absl::StrAppend(&key,
                    "<svg style=\"display:inline;width:14px;height:10px\" viewBox=\"0 0 1 1\" ",
                    "preserveAspectRatio=none><path class=h", s, " d=\"M0 0h1v1h-1z\"/></svg>");
  }
  return absl::StrCat(
      "<div style=\"display:flex;gap:.6rem\">",
      NamesMarkup(NamesOf(grid, row_pixels, every), row_pixels), "<div style=\"flex:1\">", svg,
      "</div></div>\n<p class=quiet>", Milliseconds(low), " ", key, " ", Milliseconds(high),
      " of own time. One row per ",
      grid.rows_per_cell == 1 ? "worker" : absl::StrCat(grid.rows_per_cell, " workers"),
      ", one column per ",
      grid.columns_per_cell == 1 ? "step" : absl::StrCat(grid.columns_per_cell, " steps"),
      grid.common ? "" : "; steps are not aligned",
      every == 1 ? "" : absl::StrCat("; one of ", every, " rows has its name"),
      has_others ? "; rows with workers of the verdict are bold" : "", ".</p>\n");
}

std::string LastArrivalStrips(const Report& report) {
  constexpr size_t kMaxMarks = 2000;
  std::map<size_t, std::string> paths;
  std::map<size_t, size_t> counts;
  const size_t marks = std::min(report.last_arrivals.size(), kMaxMarks);
  for (size_t i = 0; i < report.last_arrivals.size(); ++i) {
    const std::optional<size_t>& last = report.last_arrivals[i];
    if (!last.has_value()) continue;
    if (i < marks) AddCell(&paths[*last], i, 0);
    ++counts[*last];
  }
  if (counts.empty()) return {};
  std::vector<std::pair<size_t, size_t>> order(counts.begin(), counts.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  constexpr size_t kMaxStrips = 16;
  std::string markup;
  if (order.size() > kMaxStrips) {
    absl::StrAppend(&markup, "<p class=quiet>The ", kMaxStrips,
                    " workers that were last most often, of ", order.size(), ".</p>\n");
    order.resize(kMaxStrips);
  }
  if (marks < report.last_arrivals.size()) {
    absl::StrAppend(&markup, "<p class=quiet>The first ", marks, " of ",
                    report.last_arrivals.size(),
                    " collectives are drawn; the numbers count all.</p>\n");
  }
  for (const auto& [worker, count] : order) {
    absl::StrAppendFormat(
        &markup,
        "<div style=\"display:flex;gap:.6rem;margin:2px 0\"><div class=quiet "
        "style=\"width:14rem;overflow:hidden\">%s: %d</div><div style=\"flex:1\"><svg "
        "viewBox=\"0 0 %d 1\" preserveAspectRatio=none style=\"height:16px\" role=img "
        "aria-label=\"when it was last\"><path class=h9 d=\"%s\"/></svg></div></div>\n",
        EscapeHtml(TitleOf(report.workers[worker])), count, marks, paths[worker]);
  }
  return markup;
}

}  // namespace jobscope::analysis
