// SPDX-License-Identifier: Apache-2.0
#include "client/terminal/notes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/terminal/columns.h"
#include "common/run/outcome.h"
#include "common/text/foreign_text.h"
#include "common/xspace/segment/loss_cause.h"

namespace jobscope {
namespace {

// Limit of notes below a table: more would push it off the screen, and the manifest has them all.
constexpr size_t kMaxNotes = 20;
// Limit of one text, for the same reason.
constexpr size_t kMaxCellBytes = 500;

enum class NoteKind { kCollectors, kLoss, kError, kWarning, kHint };

// Returns the text before the worker's address.
const char* NoteStart(NoteKind kind) {
  switch (kind) {
    case NoteKind::kCollectors:
      return "collectors of ";
    case NoteKind::kLoss:
      return "losses of ";
    case NoteKind::kError:
      return "error of ";
    case NoteKind::kWarning:
      return "warning of ";
    case NoteKind::kHint:
      return "hint for ";
  }
  return "";
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

}  // namespace

std::string Cell(const std::string& text) { return OneLine(text, kMaxCellBytes); }

std::string Notes(const Manifest& manifest, bool with_collectors, bool verbose) {
  struct Note {
    NoteKind kind;
    std::string first, text;
    size_t workers = 0;
  };
  std::vector<Note> notes;
  using Form = std::pair<NoteKind, std::string>;
  // The index of a note by its form, and by its ordinal among the texts of that form in one worker.
  std::map<std::pair<Form, size_t>, size_t> known;
  std::map<Form, size_t> of_worker;
  const auto add = [&](NoteKind kind, const ManifestWorker& worker, const std::string& text) {
    Form form(kind, text);
    // "began 7 ms late" and "began 9 ms late" are alike; collectors must be equal.
    if (kind != NoteKind::kCollectors) {
      form.second.erase(std::remove_if(form.second.begin(), form.second.end(), absl::ascii_isdigit),
                        form.second.end());
    }
    const size_t nth = of_worker[form]++;
    const auto [entry, is_new] = known.try_emplace({std::move(form), nth}, notes.size());
    if (is_new) notes.push_back({kind, worker.address, Cell(text)});
    ++notes[entry->second].workers;
  };
  for (const ManifestWorker& worker : manifest.workers) {
    of_worker.clear();
    const std::string collectors = with_collectors ? Collectors(worker, verbose) : "";
    if (!collectors.empty()) add(NoteKind::kCollectors, worker, collectors);
    for (const auto& [cause, events] : worker.lost_by_cause) {
      add(NoteKind::kLoss, worker,
          absl::StrCat(events, " events (", cause, "): ", ExplanationOf(cause)));
    }
    for (const std::string& error : worker.errors) add(NoteKind::kError, worker, error);
    for (const std::string& warning : worker.warnings) add(NoteKind::kWarning, worker, warning);
    const std::string hint = Hint(manifest, worker);
    if (!hint.empty()) add(NoteKind::kHint, worker, hint);
  }
  std::string text;
  for (size_t i = 0; i < std::min(notes.size(), kMaxNotes); ++i) {
    const Note& note = notes[i];
    const std::string line = absl::StrCat(
        NoteStart(note.kind), note.first,
        note.workers > 1 ? absl::StrCat(" and ", note.workers - 1, " more") : "", ": ", note.text);
    absl::StrAppend(&text, note.kind == NoteKind::kCollectors ? Wrapped(line) : line, "\n");
  }
  if (notes.size() > kMaxNotes) {
    absl::StrAppend(&text, notes.size() - kMaxNotes, " more",
                    with_collectors ? ": --json\n" : " in the manifest\n");
  }
  return text;
}

}  // namespace jobscope
