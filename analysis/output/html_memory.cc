// SPDX-License-Identifier: Apache-2.0
#include "analysis/output/html_memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/output/html.h"

namespace jobscope::analysis {
namespace {

using json = nlohmann::ordered_json;

constexpr size_t kMaxCharts = 8;   // of memory, and as many of other counters
constexpr size_t kMaxSeries = 16;  // workers in each
constexpr size_t kMaxRows = 4096;
// Bounds the points of all lines together: each takes some 20 bytes of the page. A chart is less
// than 1,000 pixels wide, and a line of kMinPointsOfLine still shows single peaks.
constexpr size_t kMaxPoints = 12'000;
constexpr size_t kMinPointsOfLine = 48;
constexpr double kMiB = 1 << 20;

using Points = std::vector<std::pair<int64_t, double>>;

// The counter or the allocator of one name in one worker.
struct Series {
  const WorkerRow* row = nullptr;
  const v1::DigestCounter* counter = nullptr;  // one of these two is set
  const v1::DigestAllocator* allocator = nullptr;
};

// All workers' series of one name: one chart.
struct Chart {
  std::string name;
  std::vector<Series> series;
};

// Counters whose values are MiB in use: of the process, by its operating system; of a GPU, by its
// driver.
bool IsMemory(const std::string& counter) {
  return absl::EndsWith(counter, "RSS (MiB)") || absl::EndsWith(counter, "memory used (MiB)");
}

std::vector<Chart> Sorted(std::map<std::string, Chart> charts) {
  std::vector<Chart> sorted;
  for (auto& [name, chart] : charts) {
    chart.name = name;
    sorted.push_back(std::move(chart));
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const Chart& a, const Chart& b) {
    return a.series.size() > b.series.size();
  });
  return sorted;
}

std::vector<Chart> CounterCharts(const Report& report, bool memory) {
  std::map<std::string, Chart> charts;
  for (const WorkerRow& row : report.workers) {
    for (const v1::DigestCounter& counter : row.view.digest->counters()) {
      if (IsMemory(counter.name()) != memory) continue;
      charts[counter.name()].series.push_back({&row, &counter, nullptr});
    }
  }
  return Sorted(std::move(charts));
}

// Returns the charts of allocators, then those of the counters of memory.
std::vector<Chart> MemoryCharts(const Report& report) {
  std::map<std::string, Chart> of_allocators;
  for (const WorkerRow& row : report.workers) {
    for (const v1::DigestAllocator& allocator : row.view.digest->allocators()) {
      of_allocators[absl::StrCat("allocator ", allocator.name(), " (MiB)")].series.push_back(
          {&row, nullptr, &allocator});
    }
  }
  std::vector<Chart> charts = Sorted(std::move(of_allocators));
  std::vector<Chart> counters = CounterCharts(report, /*memory=*/true);
  std::move(counters.begin(), counters.end(), std::back_inserter(charts));
  return charts;
}

std::string ChartsMarkup(const std::vector<Chart>& charts, const char* id) {
  std::string markup;
  for (size_t i = 0; i < std::min(charts.size(), kMaxCharts); ++i) {
    const std::string name = EscapeHtml(charts[i].name);
    const size_t workers = charts[i].series.size();
    absl::StrAppend(
        &markup, "<p class=quiet>", name,
        workers > kMaxSeries ? absl::StrCat(": ", kMaxSeries, " of ", workers, " workers") : "",
        "</p>\n<div class=chart style=\"height:14rem\"><canvas id=", id, "-", i,
        " role=img aria-label=\"", name, " over time\"></canvas></div>\n");
  }
  if (charts.size() > kMaxCharts) {
    absl::StrAppend(&markup, "<p class=quiet>", kMaxCharts, " of ", charts.size(),
                    " have a chart.</p>\n");
  }
  return markup;
}

// Returns the table; if rows were left out, after a line that says so.
std::string WithCount(const HtmlTable& table, const std::vector<Chart>& charts) {
  size_t rows = 0;
  for (const Chart& chart : charts) rows += chart.series.size();
  if (rows <= kMaxRows) return table.Markup();
  return absl::StrCat("<p class=quiet>The first ", kMaxRows, " of ", rows,
                      " rows; --json has all.</p>\n", table.Markup());
}

std::string MiB(double bytes) { return absl::StrFormat("%.1f", bytes / kMiB); }

template <typename Value>
std::string MiBOrNotKnown(bool known, Value bytes) {
  return known ? MiB(static_cast<double>(bytes)) : std::string("not known");
}

void AddRow(const Series& series, const std::string& name, HtmlTable* table) {
  const std::string worker = TitleOf(*series.row);
  if (series.counter != nullptr) {
    const v1::DigestCounter& counter = *series.counter;
    table->Add({name, worker, absl::StrFormat("%.1f", counter.last()),
                absl::StrFormat("%.1f", counter.maximum()), "", "", "", "", "", "", ""});
    return;
  }
  const v1::DigestAllocator& allocator = *series.allocator;
  table->Add({name, worker, MiB(static_cast<double>(allocator.in_use())),
              MiB(static_cast<double>(allocator.peak())),
              MiBOrNotKnown(allocator.has_process_peak(), allocator.process_peak()),
              MiBOrNotKnown(allocator.has_reserved(), allocator.reserved()),
              MiBOrNotKnown(allocator.has_limit(), allocator.limit()),
              allocator.has_fragmentation()
                  ? absl::StrFormat("%.1f", 100 * allocator.fragmentation())
                  : std::string("not known"),
              absl::StrCat(allocator.allocations()), MiB(static_cast<double>(allocator.largest())),
              allocator.largest_operation()});
}

Points PointsOf(const Series& series) {
  Points points;
  // A foreign digest may have any numbers as times: unsigned, so that the sum may overflow.
  uint64_t time_ns = 0;
  const auto add = [&](int64_t delta_ns, double value) {
    time_ns += static_cast<uint64_t>(delta_ns);
    if (std::isfinite(value)) points.emplace_back(static_cast<int64_t>(time_ns), value);
  };
  if (series.counter != nullptr) {
    const v1::DigestCounter& counter = *series.counter;
    const int size = std::min(counter.time_ns_size(), counter.value_size());
    for (int i = 0; i < size; ++i) add(counter.time_ns(i), counter.value(i));
  } else {
    const v1::DigestAllocator& allocator = *series.allocator;
    const int size = std::min(allocator.time_ns_size(), allocator.point_size());
    for (int i = 0; i < size; ++i) {
      add(allocator.time_ns(i),
          std::round(static_cast<double>(allocator.point(i)) / kMiB * 10) / 10);
    }
  }
  return points;
}

// Keeps at most `most` points: the largest value of each group of neighbours.
Points Thinned(const Points& points, size_t most) {
  const size_t group = (points.size() + most - 1) / most;
  Points thinned;
  for (size_t i = 0; i < points.size(); ++i) {
    if (i % group == 0) {
      thinned.push_back(points[i]);
    } else if (points[i].second > thinned.back().second) {
      thinned.back() = points[i];
    }
  }
  return thinned;
}

size_t CountLines(const std::vector<Chart>& charts) {
  size_t lines = 0;
  for (size_t i = 0; i < std::min(charts.size(), kMaxCharts); ++i) {
    lines += std::min(charts[i].series.size(), kMaxSeries);
  }
  return lines;
}

// Rounds to six digits: no chart shows more.
double SixDigits(double value) {
  double rounded = value;
  return absl::SimpleAtod(absl::StrFormat("%.6g", value), &rounded) ? rounded : value;
}

void AddLines(const std::vector<Chart>& charts, const char* id, size_t points_of_line, json* all) {
  for (size_t i = 0; i < std::min(charts.size(), kMaxCharts); ++i) {
    json lines = json::array();
    for (const Series& series : charts[i].series) {
      if (lines.size() == kMaxSeries) break;
      json points = json::array();
      for (const auto& [time_ns, value] : Thinned(PointsOf(series), points_of_line)) {
        points.push_back(
            {std::round(static_cast<double>(time_ns) / kNsPerMs * 100) / 100, SixDigits(value)});
      }
      lines.push_back({{"title", TitleOf(*series.row)}, {"points", std::move(points)}});
    }
    (*all)[absl::StrCat(id, "-", i)] = std::move(lines);
  }
}

std::string MemoryTableOf(const std::vector<Chart>& charts) {
  HtmlTable table("memory-table",
                  "Memory in MiB: in use at the end and at most in the capture; since the start of "
                  "the process, reserved, limit and fragmentation as the allocator reports them",
                  {{"memory", kText},
                   {"worker", kText},
                   {"in use"},
                   {"peak"},
                   {"peak of the process"},
                   {"reserved"},
                   {"limit"},
                   {"fragmented %"},
                   {"allocations"},
                   {"largest"},
                   {"largest is for", kText}},
                  /*filter=*/true);
  size_t rows = 0;
  for (const Chart& chart : charts) {
    for (const Series& series : chart.series) {
      if (++rows <= kMaxRows) AddRow(series, chart.name, &table);
    }
  }
  return WithCount(table, charts);
}

std::string CountersTableOf(const std::vector<Chart>& charts) {
  HtmlTable table(
      "counter-table", "Counters of each worker",
      {{"counter", kText}, {"worker", kText}, {"mean"}, {"minimum"}, {"maximum"}, {"last"}},
      /*filter=*/true);
  size_t rows = 0;
  for (const Chart& chart : charts) {
    for (const Series& series : chart.series) {
      if (++rows > kMaxRows) break;
      const v1::DigestCounter& counter = *series.counter;
      table.Add({counter.name(), TitleOf(*series.row), absl::StrFormat("%.6g", counter.mean()),
                 absl::StrFormat("%.6g", counter.minimum()),
                 absl::StrFormat("%.6g", counter.maximum()),
                 absl::StrFormat("%.6g", counter.last())});
    }
  }
  return WithCount(table, charts);
}

}  // namespace

std::string MemorySection(const Report& report) {
  std::string markup;
  const std::vector<Chart> memory = MemoryCharts(report);
  if (!memory.empty()) {
    absl::StrAppend(&markup, "<h2 id=s-memory>Memory</h2>\n", ChartsMarkup(memory, "memory"),
                    MemoryTableOf(memory));
  }
  const std::vector<Chart> counters = CounterCharts(report, /*memory=*/false);
  if (!counters.empty()) {
    absl::StrAppend(&markup, "<h2 id=s-counters>Counters</h2>\n", ChartsMarkup(counters, "counter"),
                    CountersTableOf(counters));
  }
  return markup;
}

json MemoryLines(const Report& report) {
  json lines = json::object();
  const std::vector<Chart> memory = MemoryCharts(report);
  const std::vector<Chart> counters = CounterCharts(report, /*memory=*/false);
  const size_t count = std::max<size_t>(1, CountLines(memory) + CountLines(counters));
  const size_t points_of_line = std::max(kMinPointsOfLine, kMaxPoints / count);
  AddLines(memory, "memory", points_of_line, &lines);
  AddLines(counters, "counter", points_of_line, &lines);
  return lines;
}

}  // namespace jobscope::analysis
