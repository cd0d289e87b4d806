// SPDX-License-Identifier: Apache-2.0
#include "analysis/output/report_text.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/report/class_view.h"
#include "analysis/report/input_view.h"
#include "analysis/text/text_table.h"

namespace jobscope::analysis {
namespace {

constexpr size_t kMaxWorkers = 64;  // rows of the table; --json has all
constexpr size_t kTopNames = 10;
constexpr size_t kMaxLines = 20;  // of missing workers, and of warnings

// Long times with fewer decimals, so that lines fit.
std::string Ms(const std::optional<double>& ms) {
  if (!ms.has_value()) return "-";
  return absl::StrFormat("%.*f", *ms < 1000 ? 2 : *ms < 10000 ? 1 : 0, *ms);
}

std::string Warnings(const Report& report, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(report.warnings.size(), most); ++i) {
    text += Labelled("WARNING", report.warnings[i]);
  }
  if (report.warnings.size() > most) {
    text +=
        Labelled("", absl::StrCat("and ", report.warnings.size() - most, " more: --json has them"));
  }
  return text;
}

// Returns how many of `all` rows the table has no room for.
std::string LeftOut(size_t all, const TextTable& table, const char* what) {
  if (all <= table.rows()) return {};
  return absl::StrCat("... and ", all - table.rows(), " more ", what, ": --json has them\n");
}

// Returns how many names the report itself leaves out; empty: none.
std::string NotInReport(const std::string& how_many, const char* what) {
  if (how_many.empty()) return {};
  return absl::StrCat("... and ", how_many, " further ", what, ": --json lacks them, too\n");
}

// Kernels, and copies beside them.
std::optional<double> DeviceMs(const WorkerRow& row) {
  const auto& compute = row.classes_ms[Index(StepClass::kDeviceCompute)];
  const auto& copies = row.classes_ms[Index(StepClass::kDeviceCopy)];
  if (!compute.has_value() && !copies.has_value()) return std::nullopt;
  return compute.value_or(0) + copies.value_or(0);
}

std::string WorkersTable(const Report& report) {
  TextTable table({{"WORKER", 24},
                   {"STEPS"},
                   {"P50 ms"},
                   {"P90"},
                   {"P99"},
                   {"LONGEST"},
                   {"OWN"},
                   {"WAIT"},
                   {"INPUT"},
                   {"DEVICE"},
                   {"LOST"}});
  for (const WorkerRow& row : report.workers) {
    if (table.rows() == kMaxWorkers) break;
    const v1::Digest& digest = *row.view.digest;
    table.Add({TitleOf(row), absl::StrCat(row.view.steps.size()), Ms(row.p50_ms), Ms(row.p90_ms),
               Ms(row.p99_ms), Ms(row.longest_ms), Ms(row.own_ms),
               Ms(row.classes_ms[Index(StepClass::kWaiting)]),
               Ms(row.classes_ms[Index(StepClass::kInput)]), Ms(DeviceMs(row)),
               digest.has_lost() ? absl::StrCat(digest.lost()) : std::string("-")});
  }
  return table.Text() + LeftOut(report.workers.size(), table, "workers");
}

std::string ClassesTable(const Report& report) {
  TextTable table(
      {{"TIME PER STEP", 20}, {"MEAN ms"}, {"SHARE"}, {"LEAST ms"}, {"MOST ms"}, {"MOST IN", 24}});
  for (const ClassRow& row : ClassesOf(report)) {
    table.Add({std::string(ClassTitle(row.step_class)), Ms(row.mean_ms),
               absl::StrFormat("%.1f %%", 100 * row.share), Ms(row.least_ms), Ms(row.most_ms),
               TitleOf(report.workers[row.most_in])});
  }
  return table.rows() == 0 ? std::string() : table.Text();
}

// Returns the tables of the workers that wait for input, and of the names that they wait in.
std::string InputTables(const Report& report) {
  const InputView input = InputOf(report);
  if (input.names.empty()) return {};
  TextTable workers({{"INPUT OF", 24}, {"ms PER STEP"}, {"SHARE"}});
  for (const InputWorker& worker : input.workers) {
    if (workers.rows() == kTopNames) break;
    workers.Add({TitleOf(report.workers[worker.worker]), Ms(worker.ms),
                 absl::StrFormat("%.1f %%", 100 * worker.share)});
  }
  TextTable names({{"INPUT WAIT, OR INSIDE ONE", 36},
                   {"MEAN ms"},
                   {"MOST ms"},
                   {"MOST IN", 18},
                   {"SOURCE", 24}});
  for (const InputName& name : input.names) {
    if (names.rows() == kTopNames) break;
    names.Add({name.is_wait ? name.name : absl::StrCat("  ", name.name), Ms(name.ms),
               Ms(name.most_ms), TitleOf(report.workers[name.most_in]), name.source});
  }
  constexpr char kNames[] = "names of input";
  std::string how_many;
  if (input.names_left_out > 0) how_many = absl::StrCat(input.names_left_out);
  return absl::StrCat(workers.Text(), LeftOut(input.workers.size(), workers, "workers with input"),
                      "\n", names.Text(), LeftOut(input.names.size(), names, kNames),
                      NotInReport(how_many, kNames));
}

std::string NamesTable(const char* title, const char* what, const std::vector<NameRow>& names,
                       const std::optional<uint64_t>& left_out) {
  if (names.empty()) return {};
  TextTable table(
      {{title, 42}, {"COUNT"}, {"TOTAL ms"}, {"SELF ms"}, {"MEAN ms"}, {"MAX ms"}, {"SHARE"}});
  for (const NameRow& row : names) {
    if (table.rows() == kTopNames) break;
    table.Add(
        {row.name, absl::StrCat(row.count), absl::StrFormat("%.1f", row.total_ms),
         absl::StrFormat("%.1f", row.self_ms),
         absl::StrFormat("%.3f", row.count > 0 ? row.total_ms / static_cast<double>(row.count) : 0),
         absl::StrFormat("%.2f", row.max_ms), absl::StrFormat("%.1f%%", 100 * row.share)});
  }
  std::string how_many;
  if (!left_out.has_value()) how_many = "an unknown number of";
  if (left_out.value_or(0) > 0) how_many = absl::StrCat("up to ", *left_out);
  return table.Text() + LeftOut(names.size(), table, what) + NotInReport(how_many, what);
}

std::string CollectivesTable(const Report& report) {
  if (report.collectives.empty()) return {};
  TextTable table({{"COLLECTIVE", 30},
                   {"GROUP", 14},
                   {"COUNT"},
                   {"MATCHED"},
                   {"WAIT ms"},
                   {"TRANSFER ms"},
                   {"OFTEN LAST", 14}});
  for (const CollectiveRow& row : report.collectives) {
    if (table.rows() == kTopNames) break;
    const auto last =
        std::max_element(row.last.begin(), row.last.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    table.Add({row.name, row.group, absl::StrCat(row.count), absl::StrCat(row.matched),
               absl::StrFormat("%.1f", row.wait_ms), absl::StrFormat("%.1f", row.transfer_ms),
               last == row.last.end() ? std::string("-") : TitleOf(report.workers[last->first])});
  }
  return table.Text() + LeftOut(report.collectives.size(), table, "collectives");
}

std::string MemoryTable(const Report& report) {
  TextTable table({{"COUNTER", 34}, {"WORKERS"}, {"MEAN"}, {"MAXIMUM"}, {"MAXIMUM IN", 24}});
  struct Sums {
    std::optional<double> mean;
    double maximum = 0;
    size_t workers = 0;
    const WorkerRow* where = nullptr;
  };
  std::map<std::string, Sums> counters;
  const auto take = [](Sums* sums, double maximum, const WorkerRow& row) {
    if (sums->where == nullptr || maximum > sums->maximum) {
      sums->maximum = maximum;
      sums->where = &row;
    }
    ++sums->workers;
  };
  for (const WorkerRow& row : report.workers) {
    for (const v1::DigestCounter& counter : row.view.digest->counters()) {
      Sums& sums = counters[counter.name()];
      sums.mean = sums.mean.value_or(0) + counter.mean();
      take(&sums, counter.maximum(), row);
    }
    constexpr double kMiB = 1 << 20;
    for (const v1::DigestAllocator& allocator : row.view.digest->allocators()) {
      take(&counters[absl::StrCat("allocator ", allocator.name(), " (MiB)")],
           static_cast<double>(allocator.peak()) / kMiB, row);
    }
  }
  for (const auto& [name, sums] : counters) {
    if (table.rows() == 2 * kTopNames) break;
    table.Add({name, absl::StrCat(sums.workers),
               sums.mean.has_value()
                   ? absl::StrFormat("%.4g", *sums.mean / static_cast<double>(sums.workers))
                   : std::string("-"),
               absl::StrFormat("%.4g", sums.maximum), TitleOf(*sums.where)});
  }
  if (counters.empty()) return {};
  return table.Text() + LeftOut(counters.size(), table, "counters");
}

// VERDICT, WHY, NEXT and SURE.
std::string AnswerText(const Report& report) {
  const Finding& verdict = report.verdict;
  std::string text = Labelled("VERDICT", verdict.text);
  bool first = true;
  for (const std::string& why : verdict.why) {
    text += Labelled(first ? "WHY" : "", why);
    first = false;
  }
  if (!verdict.advice.empty()) text += Labelled("NEXT", verdict.advice);
  return text + Labelled("SURE", report.sure);
}

}  // namespace

std::string VerdictText(const Report& report) {
  constexpr size_t kMaxWarnings = 5;
  return AnswerText(report) + Warnings(report, kMaxWarnings);
}

std::string ReportText(const Report& report) {
  std::string text = AnswerText(report);
  constexpr size_t kMaxFindings = 5;
  for (size_t i = 1; i < std::min(report.findings.size(), kMaxFindings); ++i) {
    text += Labelled("ALSO", report.findings[i].text);
  }
  if (report.findings.size() > kMaxFindings) {
    text += Labelled("", absl::StrCat("and ", report.findings.size() - kMaxFindings,
                                      " more findings: --json has them"));
  }
  const std::string tables[] = {
      WorkersTable(report),
      ClassesTable(report),
      InputTables(report),
      CollectivesTable(report),
      NamesTable("SCOPE OR OPERATOR", "scopes and operators", report.operators,
                 report.operators_left_out),
      NamesTable("KERNEL", "kernels", report.kernels, report.kernels_left_out),
      MemoryTable(report)};
  for (const std::string& table : tables) {
    if (!table.empty()) absl::StrAppend(&text, "\n", table);
  }
  if (!report.missing.empty()) text += "\n";
  for (size_t i = 0; i < std::min(report.missing.size(), kMaxLines); ++i) {
    text +=
        Labelled("MISSING", absl::StrCat(report.missing[i].worker, ": ", report.missing[i].reason));
  }
  if (report.missing.size() > kMaxLines) {
    text += Labelled(
        "", absl::StrCat("and ", report.missing.size() - kMaxLines, " more: --json has them"));
  }
  if (!report.warnings.empty()) text += "\n";
  return text + Warnings(report, kMaxLines);
}

}  // namespace jobscope::analysis
