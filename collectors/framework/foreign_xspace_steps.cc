// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/foreign_xspace_steps.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "common/xspace/absl_view.h"
#include "common/xspace/fields.h"

namespace jobscope::framework {
namespace {

// How jaxlib names the call of a jitted function, whatever becomes of it.
constexpr absl::string_view kCallPrefix = "PjitFunction(";
constexpr size_t kMinCalls = 3;

int64_t EndOf(const ForeignEvent& event) {
  int64_t end = 0;
  return __builtin_add_overflow(event.offset_ps, event.duration_ps, &end) ? INT64_MAX : end;
}

// What of a function's name stands in the name of its program: "PjitFunction(<lambda>)" runs
// "jit__lambda".
std::string CoreName(std::string_view name) {
  std::string core;
  for (const char c : name) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c))) core.push_back(c);
  }
  return core;
}

std::string CoreOfCall(std::string_view call) { return CoreName(call.substr(kCallPrefix.size())); }

// Time that programs run, by their core names.
std::map<std::string, int64_t> TimeOfPrograms(const ForeignPlane& plane) {
  constexpr std::string_view kProgramPrefix = "jit_";
  std::map<std::string, int64_t> times;
  uint64_t module_stat = 0;
  for (const auto& [id, name] : plane.stat_names) {
    if (name == "hlo_module") module_stat = id;
  }
  if (module_stat == 0) return times;
  absl::flat_hash_map<uint64_t, int64_t> by_text;  // by reference
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

// By metadata id, of one line. The line's events come parents first, as profilers sort them; on a
// line that is not sorted so, fewer calls are found outermost.
std::map<uint64_t, Calls> CallsOfLine(std::string_view line,
                                      const absl::flat_hash_set<uint64_t>& jitted) {
  std::map<uint64_t, Calls> calls;
  int64_t outermost_begin = 0;
  int64_t outermost_end = INT64_MIN;
  int64_t call_end = INT64_MIN;  // of the jitted call around
  ForEachField(line, xspace::xline_field::kEvents, [&](std::string_view bytes) {
    const ForeignEvent event = ReadForeignEvent(bytes);
    // An instant at an edge opens nothing.
    if (event.is_aggregate || event.duration_ps <= 0) return;
    if (event.offset_ps >= outermost_end) {
      outermost_begin = event.offset_ps;
      outermost_end = EndOf(event);
    }
    if (event.offset_ps < call_end || !jitted.contains(event.metadata_id)) return;
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

JitSteps FindJitSteps(const ForeignPlane& plane, std::string_view only) {
  absl::flat_hash_set<uint64_t> jitted;
  for (const auto& [id, bytes] : plane.event_metadata) {
    const std::string_view name = ReadForeignEventMetadata(bytes).name;
    if (only.empty() ? absl::StartsWith(xspace::AbslView(name), kCallPrefix) : name == only) {
      jitted.insert(id);
    }
  }
  JitSteps best;
  if (jitted.empty()) return best;
  const std::map<std::string, int64_t> programs = TimeOfPrograms(plane);
  std::pair<int64_t, int64_t> best_ps = {-1, -1};  // of the program, of the calls
  for (size_t line = 0; line < plane.lines.size(); ++line) {
    for (auto& [id, calls] : CallsOfLine(plane.lines[line], jitted)) {
      if (calls.boundaries_ps.size() < kMinCalls) continue;
      const std::string_view name = plane.EventMetadata(id).name;
      const auto program = programs.find(CoreOfCall(name));
      const std::pair<int64_t, int64_t> time = {program == programs.end() ? 0 : program->second,
                                                calls.total_ps};
      if (time <= best_ps) continue;
      best_ps = time;
      best.call = std::string(name);
      best.line = line;
      best.boundaries_ps = std::move(calls.boundaries_ps);
    }
  }
  return best;
}

bool HasStepMarks(const ForeignPlane& plane) {
  bool declared = false;
  for (const auto& [id, name] : plane.stat_names) declared = declared || name == "_r";
  if (!declared) return false;
  bool found = false;
  for (const std::string_view line : plane.lines) {
    ForEachField(line, xspace::xline_field::kEvents, [&](std::string_view event) {
      if (found) return;
      ForEachField(event, xspace::xevent_field::kStats, [&](std::string_view stat) {
        found = found || plane.StatName(ReadForeignStat(stat).metadata_id) == "_r";
      });
    });
    if (found) break;
  }
  return found;
}

}  // namespace jobscope::framework
