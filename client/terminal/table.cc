// SPDX-License-Identifier: Apache-2.0
#include "client/terminal/table.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/terminal/columns.h"
#include "client/terminal/notes.h"
#include "common/run/outcome.h"
#include "common/text/foreign_text.h"

namespace jobscope {
namespace {

// Limit of the source of inferred steps, which shares its column with a number.
constexpr size_t kMaxSourceBytes = 60;

template <typename Number>
std::string Optional(const std::optional<Number>& number) {
  return number.has_value() ? absl::StrCat(*number) : "";
}

std::string OptionalGrouped(const std::optional<uint64_t>& number) {
  return number.has_value() ? Grouped(*number) : "";
}

std::string ProtocolCell(const ManifestWorker& worker) {
  return worker.protocol.has_value() ? Name(*worker.protocol) : "";
}

uint64_t Bytes(const ManifestWorker& worker) {
  uint64_t bytes = 0;
  for (const ManifestFile& file : worker.files) bytes += file.bytes;
  return bytes;
}

// "+-12 us": the uncertainty of this worker's times.
std::string Clock(const ManifestWorker& worker) {
  if (!worker.clock_uncertainty_ns.has_value()) return "";
  return absl::StrFormat("+-%.1f us", static_cast<double>(*worker.clock_uncertainty_ns) / 1e3);
}

// "302 inferred (optimizer step)": the program does not mark its steps.
std::string Steps(const ManifestWorker& worker, const std::string& number) {
  if (number.empty() || !worker.steps_inferred.value_or(false)) return number;
  return absl::StrCat(number, " inferred (", OneLine(worker.steps_source, kMaxSourceBytes), ")");
}

// "2 x NVIDIA H100, 40.1 GiB of 159.2 GiB used": groups GPUs of one kind.
std::string Gpus(const ManifestWorker& worker) {
  struct Kind {
    std::string name;
    size_t count = 0;
    uint64_t used = 0, total = 0;
  };
  std::vector<Kind> kinds;
  for (const ManifestGpu& gpu : worker.gpus) {
    auto kind = std::find_if(kinds.begin(), kinds.end(),
                             [&](const Kind& known) { return known.name == gpu.name; });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), Kind{gpu.name, 0, 0, 0});
    ++kind->count;
    kind->used += gpu.memory_used_bytes.value_or(0);
    kind->total += gpu.memory_total_bytes.value_or(0);
  }
  std::vector<std::string> texts;
  for (const Kind& kind : kinds) {
    texts.push_back(absl::StrCat(kind.count > 1 ? absl::StrCat(kind.count, " x ") : "", kind.name));
    if (kind.total > 0) {
      absl::StrAppend(&texts.back(), ", ", ByteCount(kind.used), " of ", ByteCount(kind.total),
                      " used");
    }
  }
  return absl::StrJoin(texts, "; ");
}

// "recording r of 10.0.0.7, 900 ms left, 2 waiting"
std::string State(const ManifestWorker& worker) {
  if (!worker.busy.has_value()) return worker.version.empty() ? "" : "idle";
  const ManifestBusy& busy = *worker.busy;
  std::string text = absl::StrCat(busy.state.name(), " ", busy.session_id);
  if (!busy.peer.empty()) absl::StrAppend(&text, " of ", busy.peer);
  if (HasBegun(busy.state) && busy.remaining_ms.has_value()) {
    absl::StrAppend(&text, ", ", *busy.remaining_ms, " ms left");
  }
  if (busy.waiting.value_or(0) > 0) absl::StrAppend(&text, ", ", *busy.waiting, " waiting");
  return text;
}

// A column: its heading and its cell for one worker. AlignColumns omits columns in which all cells
// are empty.
struct Column {
  const char* heading;
  std::string (*cell)(const ManifestWorker& worker);
};

std::string RankCell(const ManifestWorker& worker) { return Optional(worker.rank); }

std::string OutcomeCell(const ManifestWorker& worker) { return Name(worker.outcome); }

std::string PhaseCell(const ManifestWorker& worker) { return Name(worker.phase); }

std::string ReasonCell(const ManifestWorker& worker) { return Cell(worker.reason); }

std::string SizeCell(const ManifestWorker& worker) {
  return worker.files.empty() ? "" : ByteCount(Bytes(worker));
}

std::string StepTimeCell(const ManifestWorker& worker) {
  if (!worker.step_time_ms.has_value()) return "";
  return absl::StrFormat("%.2f ms", *worker.step_time_ms);
}

constexpr Column kWorker = {"WORKER", [](const ManifestWorker& worker) { return worker.address; }};
constexpr Column kRank = {"RANK", &RankCell};
constexpr Column kOutcome = {"OUTCOME", &OutcomeCell};
constexpr Column kProtocol = {"PROTOCOL", &ProtocolCell};
constexpr Column kReason = {"REASON", &ReasonCell};

constexpr Column kCaptureColumns[] = {
    kWorker,
    kRank,
    kOutcome,
    {"PHASE", &PhaseCell},
    {"EVENTS", [](const ManifestWorker& worker) { return OptionalGrouped(worker.events); }},
    {"LOST", [](const ManifestWorker& worker) { return OptionalGrouped(worker.lost); }},
    {"STEPS",
     [](const ManifestWorker& worker) { return Steps(worker, OptionalGrouped(worker.steps)); }},
    {"SIZE", &SizeCell},
    {"CLOCK", &Clock},
    kProtocol,
    kReason,
};

constexpr Column kCheckColumns[] = {
    kWorker,
    kOutcome,
    {"STATE", [](const ManifestWorker& worker) { return Cell(State(worker)); }},
    kProtocol,
    {"VERSION", [](const ManifestWorker& worker) { return Cell(worker.version); }},
    {"HOST", [](const ManifestWorker& worker) { return Cell(worker.host); }},
    {"PID", [](const ManifestWorker& worker) { return Optional(worker.pid); }},
    kRank,
    {"STEP",
     [](const ManifestWorker& worker) { return Steps(worker, Optional(worker.current_step)); }},
    {"STEP TIME", &StepTimeCell},
    kReason,
};

constexpr Column kStopColumns[] = {kWorker, kOutcome, kReason};

// Returns the heading, and a row for each worker.
template <size_t count>
std::vector<Row> RowsOf(const Column (&columns)[count], const Manifest& manifest) {
  std::vector<Row> rows(1);
  for (const Column& column : columns) rows[0].emplace_back(column.heading);
  for (const ManifestWorker& worker : manifest.workers) {
    Row row;
    for (const Column& column : columns) row.push_back(column.cell(worker));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::string CaptureTable(const Manifest& manifest) {
  size_t delivered = 0;
  uint64_t bytes = 0;
  size_t losses_unknown = 0;  // of those that delivered
  size_t total = 0;
  size_t truncated = 0;
  for (const ManifestWorker& worker : manifest.workers) {
    total += worker.outcome == Outcome::kDuplicate ? 0 : 1;
    truncated += worker.outcome == Outcome::kTruncated ? 1 : 0;
    delivered += IsDelivery(worker.outcome) ? 1 : 0;
    bytes += Bytes(worker);
    losses_unknown += IsDelivery(worker.outcome) && !worker.lost.has_value() ? 1 : 0;
  }
  std::string text = AlignColumns(RowsOf(kCaptureColumns, manifest));
  absl::StrAppend(&text, Notes(manifest));
  absl::StrAppend(&text, delivered, " of ", total, total == 1 ? " worker" : " workers",
                  " delivered");
  if (truncated > 0) absl::StrAppend(&text, " (", truncated, " truncated)");
  if (delivered > 0) {
    absl::StrAppend(&text, ": ", Grouped(manifest.events.value_or(0)), " events, ");
    if (losses_unknown < delivered) {
      absl::StrAppend(&text, Grouped(manifest.lost.value_or(0)), " lost");
      if (losses_unknown > 0) absl::StrAppend(&text, " (of ", losses_unknown, " not known)");
    } else {
      absl::StrAppend(&text, "losses not known");
    }
    absl::StrAppend(&text, ", ", ByteCount(bytes));
  }
  if (manifest.start_spread_ns.has_value()) {
    absl::StrAppendFormat(&text, ", starts within %.3f ms",
                          static_cast<double>(*manifest.start_spread_ns) / 1e6);
    if (manifest.clock_uncertainty_ns.has_value()) {
      absl::StrAppendFormat(&text, " (+-%.3f)",
                            static_cast<double>(*manifest.clock_uncertainty_ns) / 1e6);
    }
  }
  if (manifest.first_step.has_value() && manifest.last_step.has_value()) {
    absl::StrAppend(&text, ", steps ", *manifest.first_step, " to ", *manifest.last_step);
    const auto by_count =
        std::count_if(manifest.workers.begin(), manifest.workers.end(),
                      [](const ManifestWorker& w) { return w.steps_by_ordinal.value_or(false); });
    if (manifest.steps_by == StepsBy::kOrdinal) absl::StrAppend(&text, " by count");
    if (manifest.steps_by == StepsBy::kMixed) absl::StrAppend(&text, " (", by_count, " by count)");
  }
  if (manifest.lookback_ns.has_value()) {
    absl::StrAppendFormat(&text, ", from %.3f s before the start",
                          static_cast<double>(*manifest.lookback_ns) / 1e9);
  }
  if (total < manifest.workers.size()) {
    absl::StrAppend(&text, "; ", manifest.workers.size() - total, " named twice");
  }
  if (!manifest.not_sampled.empty()) {
    absl::StrAppend(&text, "; ", manifest.not_sampled.size(), " not sampled");
  }
  absl::StrAppend(&text, "\n", manifest.run_directory, "\n");
  return text;
}

std::string CheckTable(const Manifest& manifest, bool verbose) {
  size_t delivered = 0;
  for (const ManifestWorker& worker : manifest.workers) {
    delivered += IsDelivery(worker.outcome) ? 1 : 0;
  }
  const std::vector<std::string> lines = AlignedLines(RowsOf(kCheckColumns, manifest));
  std::string text = lines[0] + "\n";
  for (size_t i = 0; i < manifest.workers.size(); ++i) {
    absl::StrAppend(&text, lines[i + 1], "\n");
    const std::string gpus = Gpus(manifest.workers[i]);
    if (!gpus.empty()) absl::StrAppend(&text, Wrapped("    GPUs: " + Cell(gpus)), "\n");
  }
  return absl::StrCat(text, Notes(manifest, /*with_collectors=*/true, verbose), delivered, " of ",
                      manifest.workers.size(),
                      manifest.workers.size() == 1 ? " worker" : " workers", " reachable\n");
}

std::string StopTable(const Manifest& manifest) {
  return AlignColumns(RowsOf(kStopColumns, manifest));
}

}  // namespace jobscope
