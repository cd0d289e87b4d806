// SPDX-License-Identifier: Apache-2.0
#include "analysis/output/html_names.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/output/html.h"
#include "analysis/report/input_view.h"

namespace jobscope::analysis {
namespace {

// Tables with more rows get a filter.
constexpr size_t kMaxRowsWithoutFilter = 8;

// Says below a table of the largest names how many others it lacks. `how_many`, such as "Up to 12",
// begins the sentence; empty: the table has all names, and nothing is said.
std::string NamesWithoutRow(const std::string& how_many) {
  if (how_many.empty()) return {};
  return absl::StrCat("<p class=quiet>", how_many,
                      " further names have no row: the table has the largest.</p>\n");
}

// `left_out`: the largest possible number of names without a row; absent: unknown.
std::string NamesSection(const char* id, const char* title, const char* caption,
                         const std::vector<NameRow>& names,
                         const std::optional<uint64_t>& left_out) {
  if (names.empty()) return {};
  HtmlTable table(id, caption,
                  {{"name", kText},
                   {"class", kText},
                   {"count"},
                   {"total ms"},
                   {"self ms"},
                   {"mean ms"},
                   {"max ms"},
                   {"share %"},
                   {"workers"},
                   {"source", kText}},
                  /*filter=*/true);
  for (const NameRow& row : names) {
    table.Add(
        {row.name, std::string(ClassTitle(row.step_class)), absl::StrCat(row.count),
         absl::StrFormat("%.3f", row.total_ms), absl::StrFormat("%.3f", row.self_ms),
         absl::StrFormat("%.4f", row.count > 0 ? row.total_ms / static_cast<double>(row.count) : 0),
         absl::StrFormat("%.3f", row.max_ms), absl::StrFormat("%.2f", 100 * row.share),
         absl::StrCat(row.workers), row.source});
  }
  std::string how_many;
  if (!left_out.has_value()) how_many = "An unknown number of";
  if (left_out.value_or(0) > 0) how_many = absl::StrCat("Up to ", *left_out);
  return absl::StrCat("<h2 id=s-", id, ">", title, "</h2>\n", table.Markup(),
                      NamesWithoutRow(how_many));
}

}  // namespace

std::string InputSection(const Report& report) {
  const InputView input = InputOf(report);
  if (input.names.empty()) return {};
  HtmlTable names("input-names",
                  "What the workers wait for: an input wait counts as a whole, a scope inside one "
                  "by its self time there; means per step over the workers that record input",
                  {{"name", kText},
                   {"is", kText},
                   {"mean ms"},
                   {"most ms"},
                   {"most in", kText},
                   {"workers"},
                   {"source", kText}},
                  input.names.size() > kMaxRowsWithoutFilter);
  for (const InputName& name : input.names) {
    names.Add({name.name, name.is_wait ? "wait" : "inside a wait", absl::StrFormat("%.3f", name.ms),
               absl::StrFormat("%.3f", name.most_ms), TitleOf(report.workers[name.most_in]),
               absl::StrCat(name.workers), name.source});
  }
  HtmlTable workers("input-workers", "Share of their steps that workers wait for input",
                    {{"worker", kText}, {"ms per step"}, {"share %"}},
                    input.workers.size() > kMaxRowsWithoutFilter);
  for (const InputWorker& worker : input.workers) {
    workers.Add({TitleOf(report.workers[worker.worker]), absl::StrFormat("%.3f", worker.ms),
                 absl::StrFormat("%.1f", 100 * worker.share)});
  }
  std::string how_many;
  if (input.names_left_out > 0) how_many = absl::StrCat(input.names_left_out);
  return absl::StrCat("<h2 id=s-input>Input</h2>\n", names.Markup(), NamesWithoutRow(how_many),
                      workers.Markup());
}

std::string NameSections(const Report& report) {
  return absl::StrCat(
      NamesSection("operators", "Scopes and operators",
                   "Of all threads and workers; self time is without what is nested inside",
                   report.operators, report.operators_left_out),
      NamesSection("kernels", "Kernels", "Of all devices and workers", report.kernels,
                   report.kernels_left_out));
}

}  // namespace jobscope::analysis
