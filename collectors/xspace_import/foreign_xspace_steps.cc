// SPDX-License-Identifier: Apache-2.0
#include "collectors/xspace_import/foreign_xspace_steps.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "common/containers/hash_table.h"
#include "common/xspace/wire/absl_view.h"
#include "common/xspace/wire/fields.h"

namespace jobscope::framework {
namespace {

constexpr size_t kMinCalls = 3;

int64_t EndOf(const ForeignEvent& event) {
  int64_t end = 0;
  return __builtin_add_overflow(event.offset_ps, event.duration_ps, &end) ? INT64_MAX : end;
}

// Returns the core name of a function or program: its letters and digits only. JAX names a
// function's compiled program after it, with other characters replaced: the call
// "PjitFunction(<lambda>)" runs the program "jit__lambda". Without their prefixes, both have the
// core name "lambda".
std::string CoreName(std::string_view name) {
  std::string core;
  for (const char c : name) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c))) core.push_back(c);
  }
  return core;
}

// Returns the id of that stat; 0 in a plane without it.
uint64_t StatNamed(const ForeignPlane& plane, std::string_view wanted) {
  for (const auto& [id, name] : plane.stat_names) {
    if (name == wanted) return id;
  }
  return 0;
}

bool HasStat(std::string_view event, uint64_t stat) {
  bool has = false;
  ForEachField(event, xspace::xevent_field::kStats, [&](std::string_view bytes) {
    has = has || ReadForeignStat(bytes).metadata_id == stat;
  });
  return has;
}

// Returns the total time of programs by their core names.
std::map<std::string, int64_t> TimeOfPrograms(const ForeignPlane& plane) {
  constexpr std::string_view kProgramPrefix = "jit_";
  std::map<std::string, int64_t> times;
  const uint64_t module_stat = StatNamed(plane, "hlo_module");
  if (module_stat == 0) return times;
  HashMap<uint64_t, int64_t> by_text;  // keyed by ref_value
  for (const std::string_view line : plane.lines) {
    ForEachField(line, xspace::xline_field::kEvents, [&](std::string_view bytes) {
      const ForeignEvent event = ReadForeignEvent(bytes);
      if (event.duration_ps <= 0) return;
      ForEachField(bytes, xspace::xevent_field::kStats, [&](std::string_view stat_bytes) {
        const ForeignStat stat = ReadForeignStat(stat_bytes);
        if (stat.metadata_id != module_stat || stat.type != ForeignStat::Type::kRef) return;
        int64_t& time = by_text[stat.integer];
        time += std::min(event.duration_ps, INT64_MAX - time);
      });
    });
  }
  for (const auto& [text, time] : by_text) {
    const std::string_view name = plane.StatName(text);
    if (name.substr(0, kProgramPrefix.size()) != kProgramPrefix) continue;
    times[CoreName(name.substr(kProgramPrefix.size()))] = time;
  }
  return times;
}

struct Calls {
  int64_t total_ps = 0;
  std::vector<int64_t> boundaries_ps;
};

// Returns the calls of one line by metadata id: events with the ids in `wanted` and, unless `stat`
// is 0, that stat. Expects parents first, as profilers sort events; on a line sorted otherwise,
// fewer calls are found outermost.
std::map<uint64_t, Calls> CallsOfLine(std::string_view line, const HashSet<uint64_t>& wanted,
                                      uint64_t stat) {
  std::map<uint64_t, Calls> calls;
  int64_t outermost_begin = 0;
  int64_t outermost_end = INT64_MIN;
  int64_t call_end = INT64_MIN;  // of the enclosing call
  ForEachField(line, xspace::xline_field::kEvents, [&](std::string_view bytes) {
    const ForeignEvent event = ReadForeignEvent(bytes);
    // An instant at an edge encloses nothing.
    if (event.is_aggregate || event.duration_ps <= 0) return;
    if (event.offset_ps >= outermost_end) {
      outermost_begin = event.offset_ps;
      outermost_end = EndOf(event);
    }
    if (event.offset_ps < call_end || !wanted.contains(event.metadata_id)) return;
    if (stat != 0 && !HasStat(bytes, stat)) return;
    call_end = EndOf(event);
    Calls& found = calls[event.metadata_id];
    found.total_ps += std::min(event.duration_ps, INT64_MAX - found.total_ps);
    if (found.boundaries_ps.empty() || found.boundaries_ps.back() < outermost_begin) {
      found.boundaries_ps.push_back(outermost_begin);
    }
  });
  return calls;
}

}  // namespace

CallSteps FindCallSteps(const ForeignPlane& plane, const StepCalls& calls, std::string_view only) {
  CallSteps best;
  const uint64_t stat = calls.stat.empty() ? 0 : StatNamed(plane, calls.stat);
  if (stat == 0 && !calls.stat.empty()) return best;
  HashSet<uint64_t> wanted;
  for (const auto& [id, bytes] : plane.event_metadata) {
    const std::string_view name = ReadForeignEventMetadata(bytes).name;
    if (only.empty() ? absl::StartsWith(xspace::AbslView(name), xspace::AbslView(calls.prefix))
                     : name == only) {
      wanted.insert(id);
    }
  }
  if (wanted.empty()) return best;
  const std::map<std::string, int64_t> programs = TimeOfPrograms(plane);
  std::pair<int64_t, int64_t> best_ps = {-1, -1};  // of the program, of the calls
  for (size_t line = 0; line < plane.lines.size(); ++line) {
    for (auto& [id, found] : CallsOfLine(plane.lines[line], wanted, stat)) {
      if (found.boundaries_ps.size() < kMinCalls) continue;
      const std::string_view name = plane.EventMetadata(id).name;
      const auto program = programs.find(CoreName(name.substr(calls.prefix.size())));
      const std::pair<int64_t, int64_t> time = {program == programs.end() ? 0 : program->second,
                                                found.total_ps};
      if (time <= best_ps) continue;
      best_ps = time;
      best.call = std::string(name);
      best.line = line;
      best.boundaries_ps = std::move(found.boundaries_ps);
    }
  }
  return best;
}

bool HasStepMarks(const ForeignPlane& plane) {
  const uint64_t root = StatNamed(plane, "_r");
  const uint64_t producer = StatNamed(plane, "_pt");
  if (root == 0) return false;
  bool found = false;
  for (const std::string_view line : plane.lines) {
    ForEachField(line, xspace::xline_field::kEvents, [&](std::string_view event) {
      found = found || (HasStat(event, root) && (producer == 0 || !HasStat(event, producer)));
    });
    if (found) break;
  }
  return found;
}

}  // namespace jobscope::framework
