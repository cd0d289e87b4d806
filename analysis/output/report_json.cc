// SPDX-License-Identifier: Apache-2.0
#include "analysis/output/report_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "analysis/report/input_view.h"
#include "common/text/foreign_text.h"

namespace jobscope::analysis {
namespace {

using json = nlohmann::ordered_json;

// Traces have a resolution of nanoseconds; more digits of a share say nothing.
double SixPlaces(double value) { return std::round(value * 1e6) / 1e6; }

void Put(json* object, const char* field, const std::optional<double>& value) {
  if (value.has_value() && std::isfinite(*value)) (*object)[field] = SixPlaces(*value);
}
void PutText(json* object, const char* field, const std::string& text) {
  if (!text.empty()) (*object)[field] = text;
}

const char* KindName(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::kStraggler:
      return "straggler";
    case Finding::Kind::kBound:
      return "bound";
    case Finding::Kind::kBalanced:
      return "balanced";
    case Finding::Kind::kUndecidable:
      break;
  }
  return "undecidable";
}

const char* AlignedName(Alignment::By by) {
  switch (by) {
    case Alignment::By::kNumber:
      return "number";
    case Alignment::By::kCollectives:
      return "collectives";
    case Alignment::By::kNone:
      break;
  }
  return "none";
}

json WorkerNames(const std::vector<size_t>& workers, const Report& report) {
  json names = json::array();
  for (const size_t w : workers) names.push_back(report.workers[w].view.name);
  return names;
}

json FindingJson(const Finding& finding, const Report& report) {
  json object;
  object["finding"] = KindName(finding.kind);
  object["workers"] = WorkerNames(finding.workers, report);
  PutText(&object, "node", finding.node);
  PutText(&object, "gpu_model", finding.gpu_model);
  if (finding.step_class.has_value()) {
    object["class"] = std::string(ClassName(*finding.step_class));
  }
  if (finding.kind != Finding::Kind::kUndecidable) {
    object["names"] = json::array();
    for (const Culprit& culprit : finding.names) object["names"].push_back(culprit.name);
  }
  Put(&object, "class_ms", finding.class_ms);
  Put(&object, "class_others_ms", finding.class_others_ms);
  if (finding.next_class.has_value()) {
    object["next_class"] = std::string(ClassName(*finding.next_class));
  }
  Put(&object, "next_class_ms", finding.next_ms);
  Put(&object, "asleep_ms", finding.asleep_ms);
  Put(&object, "device_idle_ms", finding.device_idle_ms);
  for (const RareClass& rare : finding.rare) {
    json left_out = {{"class", std::string(ClassName(rare.step_class))},
                     {"ms", SixPlaces(rare.ms)}};
    if (rare.of_steps > 0) {
      left_out["steps"] = rare.steps;
      left_out["of_steps"] = rare.of_steps;
    }
    object["not_counted"].push_back(std::move(left_out));
  }
  Put(&object, "step_ms", finding.step_ms);
  Put(&object, "mended_step_ms", finding.mended_step_ms);
  Put(&object, "gain", finding.gain);
  Put(&object, "gain_low", finding.gain_low);
  Put(&object, "gain_high", finding.gain_high);
  if (finding.gain_at_most) object["gain_at_most"] = true;
  if (finding.late_steps > 0) object["late_steps"] = finding.late_steps;
  if (!finding.latest.empty()) object["latest"] = WorkerNames(finding.latest, report);
  if (finding.single_step.has_value()) object["single_step"] = *finding.single_step;
  object["text"] = finding.text;
  if (!finding.why.empty()) object["why"] = finding.why;
  PutText(&object, "advice", finding.advice);
  PutText(&object, "why_undecidable", finding.why_undecidable);
  return object;
}

json WorkerJson(const WorkerRow& row) {
  const v1::Digest& digest = *row.view.digest;
  json object;
  object["name"] = digest.name();
  if (digest.has_rank()) object["rank"] = digest.rank();
  PutText(&object, "host", digest.host());
  PutText(&object, "gpu_model", digest.gpu_model());
  PutText(&object, "outcome", digest.outcome());
  object["steps"] = row.view.steps.size();
  PutText(&object, "steps_source", digest.steps_source());
  Put(&object, "p50_ms", row.p50_ms);
  Put(&object, "p90_ms", row.p90_ms);
  Put(&object, "p99_ms", row.p99_ms);
  Put(&object, "longest_ms", row.longest_ms);
  Put(&object, "gap_ms", row.gap_ms);
  Put(&object, "own_ms", row.own_ms);
  Put(&object, "mean_ms", row.mean_ms);
  Put(&object, "asleep_ms", row.asleep_ms);
  object["events"] = digest.events();
  if (digest.has_lost()) object["lost"] = digest.lost();
  for (const auto& [cause, events] : LossesOf(row)) object["lost_by_cause"][cause] = events;
  if (digest.aligned() && digest.has_clock_uncertainty_ns()) {
    Put(&object, "clock_uncertainty_ms",
        static_cast<double>(digest.clock_uncertainty_ns()) / kNsPerMs);
  }
  json classes = json::object();
  for (size_t c = 0; c < kStepClasses; ++c) {
    if (row.classes_ms[c].has_value()) {
      classes[std::string(kClassNames[c])] = SixPlaces(*row.classes_ms[c]);
    }
  }
  object["classes_ms"] = std::move(classes);
  return object;
}

json InputJson(const Report& report) {
  const InputView input = InputOf(report);
  json object;
  object["workers"] = json::array();
  for (const InputWorker& worker : input.workers) {
    object["workers"].push_back({{"worker", report.workers[worker.worker].view.name},
                                 {"ms", SixPlaces(worker.ms)},
                                 {"share", SixPlaces(worker.share)}});
  }
  object["names"] = json::array();
  for (const InputName& name : input.names) {
    json entry = {{"name", name.name}, {"wait", name.is_wait}};
    PutText(&entry, "source", name.source);
    entry["ms"] = SixPlaces(name.ms);
    entry["workers"] = name.workers;
    entry["most_ms"] = SixPlaces(name.most_ms);
    entry["most_in"] = report.workers[name.most_in].view.name;
    object["names"].push_back(std::move(entry));
  }
  object["names_left_out"] = input.names_left_out;
  return object;
}

json CollectiveJson(const CollectiveRow& row, const Report& report) {
  json object;
  object["name"] = row.name;
  PutText(&object, "process_group", row.group);
  object["count"] = row.count;
  object["matched"] = row.matched;
  object["wait_ms"] = SixPlaces(row.wait_ms);
  object["transfer_ms"] = SixPlaces(row.transfer_ms);
  if (row.bytes.has_value()) object["bytes"] = *row.bytes;
  json last = json::object();
  for (const auto& [worker, count] : row.last) last[report.workers[worker].view.name] = count;
  object["last"] = std::move(last);
  return object;
}

json NameJson(const NameRow& row) {
  json object;
  object["name"] = row.name;
  object["class"] = std::string(ClassName(row.step_class));
  PutText(&object, "source", row.source);
  object["count"] = row.count;
  object["total_ms"] = SixPlaces(row.total_ms);
  object["self_ms"] = SixPlaces(row.self_ms);
  object["mean_ms"] = SixPlaces(row.count > 0 ? row.total_ms / static_cast<double>(row.count) : 0);
  object["max_ms"] = SixPlaces(row.max_ms);
  object["share"] = SixPlaces(row.share);
  object["workers"] = row.workers;
  return object;
}

// Returns counters by name and worker.
json MemoryJson(const Report& report) {
  json object = json::object();
  for (const WorkerRow& row : report.workers) {
    for (const v1::DigestCounter& counter : row.view.digest->counters()) {
      json& value = object[counter.name()][row.view.name];
      value = json::object();
      Put(&value, "mean", counter.mean());
      Put(&value, "minimum", counter.minimum());
      Put(&value, "maximum", counter.maximum());
      Put(&value, "last", counter.last());
    }
  }
  return object;
}

json AllocatorJson(const v1::DigestAllocator& allocator, const std::string& worker) {
  json object;
  object["name"] = allocator.name();
  object["worker"] = worker;
  object["allocations"] = allocator.allocations();
  object["deallocations"] = allocator.deallocations();
  object["in_use_bytes"] = allocator.in_use();
  object["peak_bytes"] = allocator.peak();
  if (allocator.has_process_peak()) object["process_peak_bytes"] = allocator.process_peak();
  if (allocator.has_reserved()) object["reserved_bytes"] = allocator.reserved();
  if (allocator.has_limit()) object["limit_bytes"] = allocator.limit();
  if (allocator.has_fragmentation()) Put(&object, "fragmentation", allocator.fragmentation());
  if (allocator.largest() > 0) object["largest_bytes"] = allocator.largest();
  PutText(&object, "largest_operation", allocator.largest_operation());
  return object;
}

json AllocatorsJson(const Report& report) {
  json array = json::array();
  for (const WorkerRow& row : report.workers) {
    for (const v1::DigestAllocator& allocator : row.view.digest->allocators()) {
      array.push_back(AllocatorJson(allocator, row.view.name));
    }
  }
  return array;
}

}  // namespace

std::string ReportJson(const Report& report) {
  json root;
  root["schema"] = kReportSchema;
  root["run"] = report.run;
  root["steps"] = {{"common", report.alignment.common()},
                   {"aligned_by", AlignedName(report.alignment.by)}};
  root["verdict"] = FindingJson(report.verdict, report);
  root["findings"] = json::array();
  for (const Finding& finding : report.findings) {
    root["findings"].push_back(FindingJson(finding, report));
  }
  root["workers"] = json::array();
  for (const WorkerRow& row : report.workers) root["workers"].push_back(WorkerJson(row));
  root["input"] = InputJson(report);
  root["collectives"] = json::array();
  for (const CollectiveRow& row : report.collectives) {
    root["collectives"].push_back(CollectiveJson(row, report));
  }
  root["operators"] = json::array();
  for (const NameRow& row : report.operators) root["operators"].push_back(NameJson(row));
  root["operators_left_out"] = report.operators_left_out;
  root["kernels"] = json::array();
  for (const NameRow& row : report.kernels) root["kernels"].push_back(NameJson(row));
  if (report.kernels_left_out.has_value()) root["kernels_left_out"] = *report.kernels_left_out;
  root["memory"] = MemoryJson(report);
  root["allocators"] = AllocatorsJson(report);
  root["missing"] = json::array();
  for (const Digests::Missing& missing : report.missing) {
    root["missing"].push_back({{"worker", missing.worker}, {"reason", missing.reason}});
  }
  root["warnings"] = report.warnings;
  root["sure"] = report.sure;
  return EscapeControls(root.dump(2, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace)) +
         "\n";
}

}  // namespace jobscope::analysis
