// SPDX-License-Identifier: Apache-2.0
#include "analysis/step_times.h"

#include <strings.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <optional>
#include <unordered_set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/xspace/fields.h"
#include "protozero/data_view.hpp"
#include "protozero/pbf_reader.hpp"

namespace jobscope::analysis {
namespace {

using protozero::pbf_reader;
using xspace::map_entry_field::kValue;

std::string_view View(protozero::data_view view) { return {view.data(), view.size()}; }

// What the host plane's metadata says about ids.
struct HostNames {
  uint64_t root = 0;      // stat `_r`
  uint64_t step_num = 0;  // stat `step_num`
  uint64_t stage = 0;     // stat `_ipl_stage_name`: the event is a stage of the input pipeline
  std::unordered_set<uint64_t> input_waits;  // events that XProf counts as input
};

// One event, as far as steps need it. A stat that is absent is 0 or nothing.
struct Event {
  uint64_t metadata_id = 0;
  int64_t start_ps = 0;
  int64_t duration_ps = 0;
  bool root = false;
  bool stage = false;
  std::optional<int64_t> step;
};

struct Interval {
  int64_t begin_ps = 0;
  int64_t end_ps = 0;
};

// Sums of foreign numbers: one that does not fit stands for "far away".
int64_t Plus(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) sum = a > 0 ? INT64_MAX : INT64_MIN;
  return sum;
}

// The name and the id of a metadata message (XEventMetadata and XStatMetadata agree on both).
void ReadMetadata(pbf_reader entry, uint64_t* id, std::string_view* name) {
  while (entry.next(kValue)) {
    pbf_reader metadata = entry.get_message();
    while (metadata.next()) {
      if (metadata.tag() == xspace::xstat_metadata_field::kId) {
        *id = metadata.get_uint64();
      } else if (metadata.tag() == xspace::xstat_metadata_field::kName) {
        *name = View(metadata.get_view());
      } else {
        metadata.skip();
      }
    }
  }
}

// XProf's own rule.
bool IsInputWait(std::string_view event_name) {
  constexpr std::string_view kPrefix = "IteratorGetNext";
  return event_name.size() >= kPrefix.size() &&
         strncasecmp(event_name.data(), kPrefix.data(), kPrefix.size()) == 0;
}

HostNames ReadNames(pbf_reader plane) {
  HostNames names;
  while (plane.next()) {
    const uint32_t field = plane.tag();
    if (field != xspace::xplane_field::kEventMetadata &&
        field != xspace::xplane_field::kStatMetadata) {
      plane.skip();
      continue;
    }
    uint64_t id = 0;
    std::string_view name;
    ReadMetadata(plane.get_message(), &id, &name);
    if (field == xspace::xplane_field::kEventMetadata) {
      if (IsInputWait(name)) names.input_waits.insert(id);
    } else if (name == "_r") {
      names.root = id;
    } else if (name == "step_num") {
      names.step_num = id;
    } else if (name == "_ipl_stage_name") {
      names.stage = id;
    }
  }
  return names;
}

void ReadStat(pbf_reader stat, const HostNames& names, Event* event) {
  uint64_t id = 0;
  int64_t value = 0;
  while (stat.next()) {
    switch (stat.tag()) {
      case xspace::xstat_field::kMetadataId:
        id = stat.get_uint64();
        break;
      case xspace::xstat_field::kInt64:
      case xspace::xstat_field::kUint64:
        value = stat.get_int64();
        break;
      default:
        stat.skip();
    }
  }
  if (id == 0) return;
  if (id == names.root) event->root = value != 0;
  if (id == names.step_num) event->step = value;
  if (id == names.stage) event->stage = true;
}

Event ReadEvent(pbf_reader reader, const HostNames& names) {
  Event event;
  while (reader.next()) {
    switch (reader.tag()) {
      case xspace::xevent_field::kMetadataId:
        event.metadata_id = reader.get_uint64();
        break;
      case xspace::xevent_field::kOffsetPs:
        event.start_ps = reader.get_int64();
        break;
      case xspace::xevent_field::kDurationPs:
        event.duration_ps = reader.get_int64();
        break;
      case xspace::xevent_field::kStats:
        ReadStat(reader.get_message(), names, &event);
        break;
      default:
        reader.skip();
    }
  }
  return event;
}

// Time of `step` covered by `waits`, which are sorted by their begin; nested waits count once.
int64_t Covered(const Step& step, absl::Span<const Interval> waits) {
  const int64_t step_end = Plus(step.start_ps, step.duration_ps);
  int64_t covered = 0;
  int64_t reached = step.start_ps;
  for (const Interval& wait : waits) {
    if (wait.begin_ps >= step_end) break;
    const int64_t end = std::min(wait.end_ps, step_end);
    if (end <= reached) continue;
    covered += end - std::max(wait.begin_ps, reached);
    reached = end;
  }
  return covered;
}

void ReadLine(pbf_reader line, const HostNames& names, std::vector<Step>* steps) {
  int64_t line_start_ps = 0;
  std::vector<Step> found;
  std::vector<Interval> waits;
  while (line.next()) {
    if (line.tag() == xspace::xline_field::kTimestampNs) {
      if (__builtin_mul_overflow(line.get_int64(), 1000, &line_start_ps)) line_start_ps = 0;
      continue;
    }
    if (line.tag() != xspace::xline_field::kEvents) {
      line.skip();
      continue;
    }
    const Event event = ReadEvent(line.get_message(), names);
    if (event.root && event.step) {
      found.push_back({*event.step, event.start_ps, event.duration_ps, 0});
    } else if (event.stage || names.input_waits.count(event.metadata_id) != 0) {
      waits.push_back({event.start_ps, Plus(event.start_ps, event.duration_ps)});
    }
  }
  std::sort(waits.begin(), waits.end(),
            [](const Interval& a, const Interval& b) { return a.begin_ps < b.begin_ps; });
  // Steps of one thread follow each other and so do its waits: each step looks only at those from
  // its start on.
  size_t first = 0;
  std::sort(found.begin(), found.end(),
            [](const Step& a, const Step& b) { return a.start_ps < b.start_ps; });
  for (Step& step : found) {
    while (first < waits.size() && waits[first].end_ps <= step.start_ps) ++first;
    step.input_wait_ps = Covered(step, absl::MakeConstSpan(waits).subspan(first));
    step.start_ps = Plus(step.start_ps, line_start_ps);
    steps->push_back(step);
  }
}

std::vector<Step> ReadStepsOrThrow(std::string_view bytes) {
  std::vector<Step> steps;
  pbf_reader space(bytes.data(), bytes.size());
  while (space.next(xspace::xspace_field::kPlanes)) {
    const pbf_reader plane = space.get_message();
    pbf_reader search = plane;
    std::string_view name;
    while (search.next(xspace::xplane_field::kName)) name = View(search.get_view());
    if (name != "/host:CPU") continue;
    // Twice over the plane: its metadata stands behind its lines.
    const HostNames names = ReadNames(plane);
    pbf_reader lines = plane;
    while (lines.next(xspace::xplane_field::kLines)) ReadLine(lines.get_message(), names, &steps);
  }
  std::sort(steps.begin(), steps.end(),
            [](const Step& a, const Step& b) { return a.start_ps < b.start_ps; });
  return steps;
}

// The value at `fraction` of sorted durations, by nearest rank.
double AtFraction(const std::vector<int64_t>& sorted_ps, double fraction) {
  const auto rank = static_cast<size_t>(fraction * static_cast<double>(sorted_ps.size()));
  return static_cast<double>(sorted_ps[std::min(rank, sorted_ps.size() - 1)]) / 1e9;
}

}  // namespace

absl::StatusOr<std::vector<Step>> ReadSteps(std::string_view xspace) {
  try {
    return ReadStepsOrThrow(xspace);
  } catch (const std::exception& error) {  // protozero's way to say that bytes are malformed
    return absl::InvalidArgumentError(absl::StrCat("not an XSpace, or cut off: ", error.what()));
  }
}

StepSummary Summarize(const std::vector<Step>& steps) {
  StepSummary summary;
  if (steps.empty()) return summary;
  std::vector<int64_t> durations;
  durations.reserve(steps.size());
  double total_ps = 0;
  double waiting_ps = 0;
  for (const Step& step : steps) {
    durations.push_back(step.duration_ps);
    total_ps += static_cast<double>(step.duration_ps);
    waiting_ps += static_cast<double>(step.input_wait_ps);
  }
  std::sort(durations.begin(), durations.end());
  summary.steps = steps.size();
  summary.median_ms = AtFraction(durations, 0.5);
  summary.p90_ms = AtFraction(durations, 0.9);
  summary.longest_ms = static_cast<double>(durations.back()) / 1e9;
  summary.input_wait_share = total_ps > 0 ? waiting_ps / total_ps : 0;
  return summary;
}

}  // namespace jobscope::analysis
