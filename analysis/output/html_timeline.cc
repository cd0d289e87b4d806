// SPDX-License-Identifier: Apache-2.0
#include "analysis/output/html_timeline.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analysis/output/html.h"
#include "analysis/steps/timeline_block.h"
#include "analysis/text/milliseconds.h"
#include "common/text/utf8.h"

namespace jobscope::analysis {
namespace {

constexpr int kRowPixels = 13;
constexpr int kHeadPixels = 18;    // the name of a worker, and above its lines the same room
constexpr int64_t kUnits = 10000;  // across the picture
// Names are written into blocks as wide as this many characters, on a page of kPagePixels; longer
// ones are cut.
constexpr size_t kMinLabel = 5;
constexpr double kPagePixels = 760;
constexpr double kCharacterPixels = 6;
constexpr size_t kMaxLineLabel = 28;

// The time that a picture spans. With clocks of their own each worker has its own.
struct Axis {
  int64_t begin_ns = 0;
  int64_t length_ns = 1;

  int64_t Units(int64_t time_ns) const {
    // Foreign times: their difference may wrap, which must not be undefined.
    const auto since_begin_ns =
        static_cast<int64_t>(static_cast<uint64_t>(time_ns) - static_cast<uint64_t>(begin_ns));
    const double part =
        static_cast<double>(since_begin_ns) / static_cast<double>(std::max<int64_t>(1, length_ns));
    return std::llround(std::clamp(part, 0.0, 1.0) * kUnits);
  }
};

std::string ClassOfBlock(uint32_t what) {
  return what == kStepItself ? std::string("cs")
                             : absl::StrCat("c", what < kStepClasses ? what : 11);
}

std::string TitleOfBlock(const ShownBlock& block) {
  return absl::StrCat(CleanUtf8(*block.name, 80), block.events > 1 ? " and other short ones" : "");
}

// All blocks of one name and class are one path.
std::string LineMarkup(const ShownLine& line, const Axis& axis, int top) {
  std::map<std::pair<std::string, std::string>, std::string> paths;
  std::string labels;
  for (const ShownBlock& block : line.blocks) {
    const int64_t from = axis.Units(block.span.begin_ns);
    const int64_t width = std::max<int64_t>(1, axis.Units(block.span.end_ns) - from);
    absl::StrAppend(&paths[{ClassOfBlock(block.what), TitleOfBlock(block)}], "M", from, " ",
                    block.row, "h", width, "v.9h-", width, "z");
    const auto room =
        static_cast<size_t>(static_cast<double>(width) / kUnits * kPagePixels / kCharacterPixels);
    if (room < kMinLabel || block.events > 1) continue;
    std::string label = CleanUtf8(*block.name, room);
    absl::StrAppendFormat(
        &labels, "<text x=%.2f%% y=%d>%s</text>", 100.0 * static_cast<double>(from) / kUnits,
        top + static_cast<int>(block.row + 1) * kRowPixels - 4, EscapeHtml(label));
  }
  std::string markup = absl::StrFormat(
      "<svg class=line y=%d width=\"100%%\" height=%d viewBox=\"0 0 %d %d\" "
      "preserveAspectRatio=none data-line=\"%s\">",
      top, static_cast<int>(line.rows) * kRowPixels, kUnits, line.rows, EscapeHtml(*line.name));
  for (const auto& [key, path] : paths) {
    absl::StrAppend(&markup, "<path class=", key.first, " d=\"", path, "\"><title>",
                    EscapeHtml(key.second), "</title></path>");
  }
  return absl::StrCat(markup, "</svg>", labels);
}

// Names beside a picture, and the picture, with the same heights.
struct Columns {
  std::string names;
  std::string pictures;
};

void AddWorker(const Report& report, const ShownWorker& worker, const Axis& axis,
               Columns* columns) {
  const std::string title = TitleOf(report.workers[worker.worker]);
  absl::StrAppendFormat(&columns->names, "<div class=worker style=\"height:%dpx\">%s</div>",
                        kHeadPixels, EscapeHtml(title));
  std::string lines;
  int top = kHeadPixels;
  for (const ShownLine& line : worker.lines) {
    const int height = static_cast<int>(line.rows) * kRowPixels;
    absl::StrAppendFormat(&columns->names, "<div style=\"height:%dpx\">%s</div>", height + 3,
                          EscapeHtml(CleanUtf8(*line.name, kMaxLineLabel)));
    lines += LineMarkup(line, axis, top);
    top += height + 3;
  }
  absl::StrAppendFormat(&columns->pictures,
                        "<svg class=worker height=%d role=img aria-label=\"%s\" "
                        "data-worker=\"%s\">%s</svg>\n",
                        top, EscapeHtml(absl::StrCat("events of ", title)), EscapeHtml(title),
                        lines);
}

std::string ScaleOf(double ms) {
  std::string scale = "<svg class=scale height=14 aria-hidden=true>";
  constexpr int kTicks = 8;
  for (int i = 0; i < kTicks; ++i) {
    absl::StrAppendFormat(&scale, "<text x=%g%% y=11>%s</text>", 100.0 * i / kTicks,
                          i == 0 ? "0" : Milliseconds(ms * i / kTicks));
  }
  return absl::StrCat(scale, "</svg>\n");
}

std::string Notes(const Report& report, const ShownStep& step) {
  std::vector<std::string> notes;
  uint64_t left_out = 0;
  for (const ShownWorker& worker : step.workers) left_out += worker.left_out;
  if (left_out > 0) notes.push_back(absl::StrCat(left_out, " short events are left out"));
  if (!step.common_clock) notes.emplace_back("each worker is drawn from its own start");
  if (!step.without.empty()) {
    std::vector<std::string> names;
    for (const size_t worker : step.without) names.push_back(TitleOf(report.workers[worker]));
    notes.push_back(
        absl::StrCat("events of other steps only are kept of ", absl::StrJoin(names, ", ")));
  }
  return absl::StrJoin(notes, "; ");
}

std::string Figure(const Report& report, const ShownStep& step) {
  Axis common;
  int64_t end_ns = INT64_MIN;
  common.begin_ns = INT64_MAX;
  int64_t longest_ns = 1;
  for (const ShownWorker& worker : step.workers) {
    common.begin_ns = std::min(common.begin_ns, worker.account.begin_ns);
    end_ns = std::max(end_ns, worker.account.end_ns);
    longest_ns = std::max(longest_ns, worker.account.length_ns());
  }
  common.length_ns =
      step.common_clock ? std::max<int64_t>(1, end_ns - common.begin_ns) : longest_ns;
  Columns columns;
  for (const ShownWorker& worker : step.workers) {
    Axis axis = common;
    if (!step.common_clock) axis.begin_ns = worker.account.begin_ns;
    AddWorker(report, worker, axis, &columns);
  }
  const double ms = static_cast<double>(common.length_ns) / kNsPerMs;
  const std::string title = absl::StrCat(
      "Step ", step.number, ": ", absl::StrJoin(step.roles, ", "), ", ", Milliseconds(step.ms));
  const std::string notes = Notes(report, step);
  return absl::StrCat(
      "<figure class=timeline data-ms=", absl::StrFormat("%.6f", ms), ">\n<figcaption>",
      EscapeHtml(title),
      notes.empty() ? "" : absl::StrCat("<span class=quiet> (", EscapeHtml(notes), ")</span>"),
      "</figcaption>\n<div class=lanes><div class=names aria-hidden=true><div "
      "style=\"height:14px\"></div>",
      columns.names, "</div><div class=pictures role=group aria-label=\"", EscapeHtml(title),
      "\"><div class=wide>\n", ScaleOf(ms), columns.pictures, "</div></div></div>\n</figure>\n");
}

// The classes that occur, with their colours.
std::string Key(const Report& report) {
  std::map<uint32_t, bool> occur;
  for (const ShownStep& step : report.timeline) {
    for (const ShownWorker& worker : step.workers) {
      for (const ShownLine& line : worker.lines) {
        for (const ShownBlock& block : line.blocks) occur[block.what] = true;
      }
    }
  }
  std::string key = "<p class=\"quiet colors\">";
  for (const auto& [what, occurs] : occur) {
    const std::string title = what == kStepItself                   ? std::string("step")
                              : what == Index(StepClass::kTransfer) ? std::string("collective")
                              : what < kStepClasses ? std::string(kClassTitles[what])
                                                    : std::string("other");
    absl::StrAppend(&key, "<svg viewBox=\"0 0 1 1\" preserveAspectRatio=none><path class=",
                    ClassOfBlock(what), " d=\"M0 0h1v1h-1z\"/></svg>", title, " ");
  }
  return absl::StrCat(key, "</p>\n");
}

}  // namespace

std::string Timelines(const Report& report) {
  std::string figures;
  for (const ShownStep& step : report.timeline) {
    if (!step.workers.empty()) figures += Figure(report, step);
  }
  if (figures.empty()) return {};
  return absl::StrCat("<h2 id=s-timeline>Timeline of single steps</h2>\n", Key(report), figures);
}

}  // namespace jobscope::analysis
