// SPDX-License-Identifier: Apache-2.0
#include "analysis/output/report_html.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/output/assets.h"
#include "analysis/output/html.h"
#include "analysis/output/html_maps.h"
#include "analysis/output/html_memory.h"
#include "analysis/output/html_names.h"
#include "analysis/output/html_timeline.h"
#include "analysis/output/html_workers.h"
#include "analysis/report/class_view.h"
#include "common/files/whole_file.h"

namespace jobscope::analysis {
namespace {

using json = nlohmann::ordered_json;

constexpr size_t kMaxStepBars = 200;  // steps of one worker

double RoundedToUs(double ms) { return std::round(ms * 1000) / 1000; }

std::string Header(const Report& report) {
  const Finding& verdict = report.verdict;
  std::string markup =
      absl::StrCat("<header>\n<p class=label>jobscope report: run ", EscapeHtml(report.run),
                   "</p>\n<h1>", EscapeHtml(verdict.text), "</h1>\n");
  if (!verdict.why.empty()) {
    markup += "<p class=label>Why</p><ul>";
    for (const std::string& why : verdict.why) {
      absl::StrAppend(&markup, "<li>", EscapeHtml(why), "</li>");
    }
    markup += "</ul>\n";
  }
  if (!verdict.advice.empty()) {
    absl::StrAppend(&markup, "<p><span class=label>Next</span> ", EscapeHtml(verdict.advice),
                    "</p>\n");
  }
  absl::StrAppend(&markup, "<p><span class=label>Sure</span> ", EscapeHtml(report.sure),
                  "</p>\n</header>\n");
  if (report.findings.size() > 1) {
    markup += "<h2>Further findings</h2>\n<ul>";
    for (size_t i = 1; i < report.findings.size(); ++i) {
      absl::StrAppend(&markup, "<li>", EscapeHtml(report.findings[i].text), "; ",
                      EscapeHtml(report.findings[i].advice), "</li>\n");
    }
    markup += "</ul>\n";
  }
  return markup;
}

// Returns the worker whose steps are drawn: the one that the verdict names, or the first.
const WorkerRow* ShownWorker(const Report& report) {
  size_t worker = report.verdict.workers.empty() ? 0 : report.verdict.workers.front();
  while (worker < report.workers.size() && report.workers[worker].view.steps.empty()) ++worker;
  return worker < report.workers.size() ? &report.workers[worker] : nullptr;
}

// The steps of a worker that are drawn: the first ones, or those around the verdict's single step.
struct DrawnSteps {
  size_t begin = 0;
  size_t end = 0;
};

DrawnSteps StepsToDraw(const WorkerView& view, const Finding& verdict) {
  DrawnSteps drawn;
  const size_t count = std::min(view.steps.size(), kMaxStepBars);
  if (verdict.single_step.has_value()) {
    const auto single =
        std::find_if(view.steps.begin(), view.steps.end(),
                     [&](const StepView& step) { return step.number == *verdict.single_step; });
    const auto at = static_cast<size_t>(single - view.steps.begin());
    if (single != view.steps.end() && at > count / 2) {
      drawn.begin = std::min(at - count / 2, view.steps.size() - count);
    }
  }
  drawn.end = drawn.begin + count;
  return drawn;
}

std::string StepsSection(const Report& report) {
  const std::string heat = HeatMap(report);
  if (heat.empty()) return {};
  const WorkerRow& worker = *ShownWorker(report);
  const std::vector<StepView>& steps = worker.view.steps;
  const DrawnSteps drawn = StepsToDraw(worker.view, report.verdict);
  std::string which;
  if (drawn.end - drawn.begin < steps.size()) {
    which = absl::StrCat(": ", drawn.end - drawn.begin, " of ", steps.size(), " steps, from step ",
                         steps[drawn.begin].number, " to ", steps[drawn.end - 1].number);
  }
  return absl::StrCat(
      "<h2 id=s-steps>Steps</h2>\n", heat, "<p class=quiet>Steps of ", EscapeHtml(TitleOf(worker)),
      ", by class", which,
      "</p>\n<div class=chart><canvas id=steps-chart role=img aria-label=\"steps of one worker by "
      "class\"></canvas></div>\n");
}

std::string ClassesSection(const Report& report) {
  HtmlTable table(
      "classes",
      "Time per step by class: mean over all workers, share of the time of all steps, "
      "and the workers with the least and the most",
      {{"class", kText}, {"mean ms"}, {"share %"}, {"least ms"}, {"most ms"}, {"most in", kText}});
  for (const ClassRow& row : ClassesOf(report)) {
    table.Add({std::string(ClassTitle(row.step_class)), absl::StrFormat("%.2f", row.mean_ms),
               absl::StrFormat("%.1f", 100 * row.share), absl::StrFormat("%.2f", row.least_ms),
               absl::StrFormat("%.2f", row.most_ms), TitleOf(report.workers[row.most_in])});
  }
  if (table.empty()) return {};
  return absl::StrCat("<h2 id=s-classes>Classes</h2>\n", table.Markup());
}

std::string CollectivesSection(const Report& report) {
  if (report.collectives.empty()) return {};
  HtmlTable table("collectives",
                  "Collectives: waiting is the sum over all workers, transfer the "
                  "least that any of them was blocked",
                  {{"collective", kText},
                   {"group", kText},
                   {"count"},
                   {"matched"},
                   {"wait ms"},
                   {"transfer ms"},
                   {"bytes"},
                   {"last to arrive", kText}});
  for (const CollectiveRow& row : report.collectives) {
    const auto last =
        std::max_element(row.last.begin(), row.last.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    table.Add({row.name, row.group, absl::StrCat(row.count), absl::StrCat(row.matched),
               absl::StrFormat("%.2f", row.wait_ms), absl::StrFormat("%.2f", row.transfer_ms),
               row.bytes.has_value() ? absl::StrCat(*row.bytes) : std::string("not recorded"),
               last == row.last.end()
                   ? std::string("not known")
                   : absl::StrCat(TitleOf(report.workers[last->first]), " (", last->second, ")")});
  }
  const std::string strip = LastArrivalStrips(report);
  return absl::StrCat(
      "<h2 id=s-collectives>Collectives</h2>\n",
      strip.empty() ? "" : "<p class=quiet>Who was last, in the order of time</p>\n", strip,
      table.Markup());
}

std::string NotesSection(const Report& report) {
  if (report.missing.empty() && report.warnings.empty()) return {};
  std::string markup = "<h2 id=s-notes>Missing, and warnings</h2>\n<ul>\n";
  constexpr size_t kMaxNotes = 200;
  size_t notes = 0;
  for (const Digests::Missing& missing : report.missing) {
    if (++notes > kMaxNotes) break;
    absl::StrAppend(&markup, "<li>missing: ", EscapeHtml(missing.worker), ": ",
                    EscapeHtml(missing.reason), "</li>\n");
  }
  if (report.missing.size() > kMaxNotes) {
    absl::StrAppend(&markup, "<li>and ", report.missing.size() - kMaxNotes,
                    " more missing: --json has all</li>\n");
  }
  for (const std::string& warning : report.warnings) {
    absl::StrAppend(&markup, "<li>", EscapeHtml(warning), "</li>\n");
  }
  return markup + "</ul>\n";
}

json ClassColumns(const std::vector<std::vector<double>>& ms) {
  json classes = json::array();
  for (size_t c = 0; c < kStepClasses; ++c) {
    if (ms[c].empty()) continue;
    classes.push_back({{"index", c}, {"title", std::string(kClassTitles[c])}, {"ms", ms[c]}});
  }
  return classes;
}

json WorkersData(const Report& report) {
  std::vector<size_t> order(report.workers.size());
  std::iota(order.begin(), order.end(), 0);
  if (order.size() > kMaxWorkerBars) {
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return report.workers[a].own_ms.value_or(0) > report.workers[b].own_ms.value_or(0);
    });
    order.resize(kMaxWorkerBars);
  }
  json labels = json::array();
  std::vector<std::vector<double>> ms(kStepClasses);
  for (const size_t w : order) labels.push_back(TitleOf(report.workers[w]));
  for (size_t c = 0; c < kStepClasses; ++c) {
    bool recorded = false;
    std::vector<double> column;
    for (const size_t w : order) {
      recorded = recorded || report.workers[w].classes_ms[c].has_value();
      column.push_back(RoundedToUs(report.workers[w].classes_ms[c].value_or(0)));
    }
    if (recorded) ms[c] = std::move(column);
  }
  return {{"labels", labels}, {"classes", ClassColumns(ms)}};
}

json StepsData(const Report& report) {
  const WorkerRow* worker = ShownWorker(report);
  if (worker == nullptr) return nullptr;
  const WorkerView& view = worker->view;
  const DrawnSteps drawn = StepsToDraw(view, report.verdict);
  json labels = json::array();
  for (size_t s = drawn.begin; s < drawn.end; ++s)
    labels.push_back(absl::StrCat(view.steps[s].number));
  std::vector<std::vector<double>> ms(kStepClasses);
  for (size_t c = 0; c < kStepClasses; ++c) {
    for (size_t s = drawn.begin; s < drawn.end && !view.class_ns[c].empty(); ++s) {
      ms[c].push_back(RoundedToUs(static_cast<double>(view.class_ns[c][s]) / kNsPerMs));
    }
  }
  return {{"labels", labels}, {"classes", ClassColumns(ms)}};
}

}  // namespace

std::string ReportHtml(const Report& report) {
  const json data = {{"workers", WorkersData(report)},
                     {"steps", StepsData(report)},
                     {"lines", MemoryLines(report)}};
  return absl::StrCat(
      "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
      "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
      // Forbids all requests, whatever the page contains.
      "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'unsafe-inline'\">\n"
      "<title>",
      EscapeHtml(report.run), ": ", EscapeHtml(report.verdict.text), "</title>\n<style>\n",
      std::string(kReportCss), "</style>\n</head>\n<body>\n", Header(report),
      WorkersSection(report), ClassesSection(report), StepsSection(report), Timelines(report),
      InputSection(report), CollectivesSection(report), NameSections(report), MemorySection(report),
      NotesSection(report), "<script type=application/json id=data>",
      EscapeScript(data.dump(-1, ' ', false, json::error_handler_t::replace)),
      "</script>\n<script>\n", std::string(kChartJs), "\n</script>\n<script>\n",
      std::string(kReportJs), "</script>\n</body>\n</html>\n");
}

absl::Status WriteReportHtml(const Report& report, const std::string& path, mode_t mode) {
  return WriteWholeFile(path, ReportHtml(report), mode);
}

}  // namespace jobscope::analysis
