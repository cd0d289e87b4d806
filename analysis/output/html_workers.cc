// SPDX-License-Identifier: Apache-2.0
#include "analysis/output/html_workers.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/output/html.h"

namespace jobscope::analysis {
namespace {

std::string MsOrNotRecorded(const std::optional<double>& ms) {
  return ms.has_value() ? absl::StrFormat("%.2f", *ms) : std::string("not recorded");
}

template <typename Condition>
bool Any(const Report& report, const Condition& condition) {
  return std::any_of(report.workers.begin(), report.workers.end(), condition);
}

// Returns "buffer_full 12, overwritten 3".
std::string LossesText(const WorkerRow& row) {
  std::string text;
  for (const auto& [cause, events] : LossesOf(row)) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", cause, " ", events);
  }
  return text;
}

}  // namespace

std::string WorkersSection(const Report& report) {
  std::vector<HtmlTable::Column> columns = {{"worker", kText}, {"host", kText}};
  const bool models =
      Any(report, [](const WorkerRow& row) { return !row.view.digest->gpu_model().empty(); });
  if (models) columns.push_back({"GPU", kText});
  columns.push_back({"outcome", kText});
  for (const char* title :
       {"steps", "p50 ms", "p90 ms", "p99 ms", "longest ms", "gap ms", "own ms", "mean ms"}) {
    columns.push_back({title});
  }
  // Only classes that some worker recorded.
  std::vector<size_t> classes;
  for (size_t c = 0; c < kStepClasses; ++c) {
    if (Any(report, [c](const WorkerRow& row) { return row.classes_ms[c].has_value(); })) {
      classes.push_back(c);
      columns.push_back({absl::StrCat(std::string(kClassTitles[c]), " ms")});
    }
  }
  columns.push_back({"events"});
  columns.push_back({"lost"});
  const bool causes = Any(report, [](const WorkerRow& row) { return !LossesOf(row).empty(); });
  if (causes) columns.push_back({"lost by cause", kText});
  columns.push_back({"clock +- ms"});
  HtmlTable table("workers", "All workers; times per step are means over all steps of a worker",
                  columns, report.workers.size() > 8);
  for (const WorkerRow& row : report.workers) {
    const v1::Digest& digest = *row.view.digest;
    std::vector<std::string> cells = {TitleOf(row), digest.host()};
    if (models) cells.push_back(digest.gpu_model());
    cells.push_back(digest.outcome());
    cells.push_back(absl::StrCat(row.view.steps.size()));
    for (const std::optional<double>& ms : {row.p50_ms, row.p90_ms, row.p99_ms, row.longest_ms,
                                            row.gap_ms, row.own_ms, row.mean_ms}) {
      cells.push_back(MsOrNotRecorded(ms));
    }
    for (const size_t c : classes) cells.push_back(MsOrNotRecorded(row.classes_ms[c]));
    cells.push_back(absl::StrCat(digest.events()));
    cells.push_back(digest.has_lost() ? absl::StrCat(digest.lost()) : std::string("not known"));
    if (causes) cells.push_back(LossesText(row));
    cells.push_back(
        digest.aligned() && digest.has_clock_uncertainty_ns()
            ? absl::StrFormat("%.4f", static_cast<double>(digest.clock_uncertainty_ns()) / kNsPerMs)
            : std::string("not known"));
    table.Add(cells);
  }
  std::string markup = "<h2 id=s-workers>Workers</h2>\n";
  if (report.workers.size() > kMaxWorkerBars) {
    absl::StrAppend(&markup, "<p class=quiet>The ", kMaxWorkerBars,
                    " workers with the largest own time; the table has all.</p>\n");
  }
  return absl::StrCat(markup,
                      "<div class=chart><canvas id=workers-chart role=img aria-label=\"time per "
                      "step of each worker by class\"></canvas></div>\n",
                      table.Markup());
}

}  // namespace jobscope::analysis
