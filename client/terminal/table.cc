// SPDX-License-Identifier: Apache-2.0
#include "client/terminal/table.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/run/outcome.h"
#include "common/text/foreign_text.h"

namespace jobscope {
namespace {

using Row = std::vector<std::string>;

// Limit of notes below a table: more would push it off the screen, and the manifest has them all.
constexpr size_t kMaxNotes = 20;
// Limit of one text, for the same reason.
constexpr size_t kMaxCellBytes = 500;
constexpr size_t kMaxSourceBytes = 60;
// Of a terminal of usual width.
constexpr size_t kMaxColumns = 100;

// Of UTF-8: bytes that do not continue a character.
size_t Characters(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

std::vector<std::string> AlignedLines(const std::vector<Row>& rows) {
  if (rows.empty()) return {};
  std::vector<size_t> widths(rows[0].size(), 0);
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t column = 0; column < widths.size(); ++column) {
      // A column with only a heading is omitted.
      if (row == 0 && rows.size() > 1) continue;
      widths[column] = std::max(widths[column], Characters(rows[row][column]));
    }
  }
  for (size_t column = 0; column < widths.size(); ++column) {
    if (widths[column] > 0) widths[column] = std::max(widths[column], Characters(rows[0][column]));
  }
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line;
    for (size_t column = 0; column < widths.size(); ++column) {
      if (widths[column] == 0) continue;
      if (!line.empty()) line += "  ";
      absl::StrAppend(&line, row[column],
                      std::string(widths[column] - Characters(row[column]), ' '));
    }
    line.resize(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

// Breaks a list whose entries end in "; " into lines, the further ones indented.
std::string Wrapped(const std::string& text) {
  std::string wrapped;
  size_t width = 0;  // of the last line
  for (const absl::string_view entry : absl::StrSplit(text, "; ")) {
    const size_t more = Characters(std::string(entry)) + 2;
    if (width > 0 && width + more > kMaxColumns) {
      wrapped += ";\n    ";
      width = 4;
    } else if (width > 0) {
      wrapped += "; ";
    }
    absl::StrAppend(&wrapped, entry);
    width += more;
  }
  return wrapped;
}

template <typename Number>
std::string Optional(const std::optional<Number>& number) {
  return number.has_value() ? absl::StrCat(*number) : "";
}

std::string OptionalGrouped(const std::optional<uint64_t>& number) {
  return number.has_value() ? Grouped(*number) : "";
}

std::string Cell(const std::string& text) { return OneLine(text, kMaxCellBytes); }

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

std::string Collectors(const ManifestWorker& worker, bool verbose) {
  std::vector<std::string> texts;
  for (const ManifestCollector& collector : worker.collectors) {
    if (collector.absent && !verbose) continue;
    texts.push_back(absl::StrCat(collector.name, " ", collector.state.name(),
                                 collector.reason.empty() ? "" : ": ", collector.reason));
  }
  return absl::StrJoin(texts, "; ");
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

// Returns what the program or the command lacks, if a worker of ours delivered less than people
// expect; else nothing.
std::string Hint(const Manifest& manifest, const ManifestWorker& worker) {
  const bool whole = worker.outcome == Outcome::kOk || worker.outcome == Outcome::kEmpty;
  if (!whole || worker.version.empty() || worker.collectors.empty()) return "";
  const auto level = [&manifest](const char* name) {
    const auto option = manifest.options_numbers.find(name);
    return option == manifest.options_numbers.end() ? 0 : option->second;
  };
  if (level("host_tracer_level") == 0) return "";
  if (worker.steps.value_or(1) == 0) {
    return "no whole step in this time: raise --duration_ms, or give --steps=N";
  }
  if (worker.steps.has_value()) return "";
  uint64_t own = 0;  // of the program, not of the machine
  for (const ManifestCollector& collector : worker.collectors) {
    const bool machine = collector.name == "system" || collector.name == "nvml";
    if (!machine) own += collector.events.value_or(0);
  }
  if (own > 0) return "no steps: mark them (JOBSCOPE_STEP, jobscope.step) to see step times";
  return absl::StrCat("no steps, no scopes: mark steps (JOBSCOPE_STEP, jobscope.step)",
                      level("python_tracer_level") == 0
                          ? ", or record an unmodified Python program with --python_tracer_level=1"
                          : "");
}

// "error of w1:6009 and 3 more: ...": texts of several workers that differ only in numbers appear
// once. A worker's further texts of the same form (GPU 0, GPU 1) are texts of their own.
// `with_collectors`: also "collectors of w1:6009 and 3 more: host on; gc on", which must be equal.
std::string Notes(const Manifest& manifest, bool with_collectors = false, bool verbose = false) {
  struct Note {
    std::string kind, first, text;
    size_t workers = 0;
  };
  std::vector<Note> notes;
  // By form and by the number of the text among those of its form in one worker.
  std::map<std::pair<std::string, size_t>, size_t> known;
  std::map<std::string, size_t> of_worker;
  const auto add = [&](const char* kind, const ManifestWorker& worker, const std::string& text,
                       bool exact = false) {
    std::string form = absl::StrCat(kind, text);
    // "began 7 ms late" and "began 9 ms late" are alike.
    if (!exact) {
      form.erase(std::remove_if(form.begin(), form.end(), absl::ascii_isdigit), form.end());
    }
    const size_t nth = of_worker[form]++;
    const auto [entry, is_new] = known.try_emplace({std::move(form), nth}, notes.size());
    if (is_new) notes.push_back({kind, worker.address, Cell(text)});
    ++notes[entry->second].workers;
  };
  for (const ManifestWorker& worker : manifest.workers) {
    of_worker.clear();
    const std::string collectors = with_collectors ? Collectors(worker, verbose) : "";
    if (!collectors.empty()) add("collectors", worker, collectors, /*exact=*/true);
    for (const std::string& error : worker.errors) add("error", worker, error);
    for (const std::string& warning : worker.warnings) add("warning", worker, warning);
    const std::string hint = Hint(manifest, worker);
    if (!hint.empty()) add("hint", worker, hint);
  }
  std::string text;
  for (size_t i = 0; i < std::min(notes.size(), kMaxNotes); ++i) {
    const Note& note = notes[i];
    const std::string line = absl::StrCat(
        note.kind, note.kind == "hint" ? " for " : " of ", note.first,
        note.workers > 1 ? absl::StrCat(" and ", note.workers - 1, " more") : "", ": ", note.text);
    absl::StrAppend(&text, note.kind == "collectors" ? Wrapped(line) : line, "\n");
  }
  if (notes.size() > kMaxNotes) {
    absl::StrAppend(&text, notes.size() - kMaxNotes, " more",
                    with_collectors ? ": --json\n" : " in the manifest\n");
  }
  return text;
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

}  // namespace

std::string AlignColumns(const std::vector<std::vector<std::string>>& rows) {
  std::string text;
  for (const std::string& line : AlignedLines(rows)) absl::StrAppend(&text, line, "\n");
  return text;
}

std::string Grouped(uint64_t number) {
  std::string text = absl::StrCat(number);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<size_t>(at), ",");
  }
  return text;
}

std::string ByteCount(uint64_t bytes) {
  if (bytes < 1024) return bytes == 0 ? "0" : absl::StrCat(bytes, " B");
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit < 5; ++unit) value /= 1024;
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string CaptureTable(const Manifest& manifest) {
  std::vector<Row> rows = {{"WORKER", "RANK", "OUTCOME", "PHASE", "EVENTS", "LOST", "STEPS", "SIZE",
                            "CLOCK", "PROTOCOL", "REASON"}};
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
    rows.push_back({worker.address, Optional(worker.rank), Name(worker.outcome), Name(worker.phase),
                    OptionalGrouped(worker.events), OptionalGrouped(worker.lost),
                    Steps(worker, OptionalGrouped(worker.steps)),
                    worker.files.empty() ? "" : ByteCount(Bytes(worker)), Clock(worker),
                    ProtocolCell(worker), Cell(worker.reason)});
  }
  std::string text = AlignColumns(rows);
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
  std::vector<Row> rows = {{"WORKER", "OUTCOME", "STATE", "PROTOCOL", "VERSION", "HOST", "PID",
                            "RANK", "STEP", "STEP TIME", "REASON"}};
  size_t delivered = 0;
  for (const ManifestWorker& worker : manifest.workers) {
    delivered += IsDelivery(worker.outcome) ? 1 : 0;
    rows.push_back(
        {worker.address, Name(worker.outcome), Cell(State(worker)), ProtocolCell(worker),
         Cell(worker.version), Cell(worker.host), Optional(worker.pid), Optional(worker.rank),
         Steps(worker, Optional(worker.current_step)),
         worker.step_time_ms.has_value() ? absl::StrFormat("%.2f ms", *worker.step_time_ms) : "",
         Cell(worker.reason)});
  }
  const std::vector<std::string> lines = AlignedLines(rows);
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
  std::vector<Row> rows = {{"WORKER", "OUTCOME", "REASON"}};
  for (const ManifestWorker& worker : manifest.workers) {
    rows.push_back({worker.address, Name(worker.outcome), Cell(worker.reason)});
  }
  return AlignColumns(rows);
}

}  // namespace jobscope
