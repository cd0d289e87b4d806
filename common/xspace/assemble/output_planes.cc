// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assemble/output_planes.h"

#include <algorithm>
#include <limits>
#include <protozero/pbf_writer.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/containers/hash_table.h"
#include "common/xspace/segment/metadata_encoder.h"
#include "common/xspace/segment/stats.h"
#include "common/xspace/segment/trace_planes.h"
#include "common/xspace/wire/absl_view.h"
#include "common/xspace/wire/fields.h"
#include "common/xspace/wire/wire.h"

namespace jobscope::xspace {
namespace {

constexpr std::string_view kTaskEnvironment = "Task Environment";
constexpr absl::string_view kGpuPrefix = "/device:GPU:";

// Returns "main [rank 5]": viewers label the processes of a run by their files, which are named by
// ports.
std::string DisplayName(const IndexedPlane& plane, const IndexedLine& line,
                        std::optional<int> rank) {
  const bool is_thread = plane.name == kHostPlaneName && line.name != kCountersLineName;
  if (!rank.has_value() || !is_thread) return std::string(line.display_name);
  const std::string_view name = line.display_name.empty() ? line.name : line.display_name;
  return absl::StrCat(AbslView(name), " [rank ", *rank, "]");
}

std::string LineHead(const IndexedPlane& plane, const IndexedLine& line, std::optional<int> rank) {
  std::string head;
  protozero::pbf_writer writer(head);
  writer.add_int64(xline_field::kId, line.key);
  if (!line.name.empty()) AddTextField(xline_field::kName, line.name, &head);
  if (line.end != 0) writer.add_uint64(xline_field::kDurationPs, FromSpread(line.end));
  const std::string display_name = DisplayName(plane, line, rank);
  if (!display_name.empty()) AddTextField(xline_field::kDisplayName, display_name, &head);
  return head;
}

OutputPlane MakePlane(const IndexedPlane& indexed, std::optional<int> rank) {
  OutputPlane plane;
  plane.indexed = &indexed;
  plane.needs_events = absl::StartsWith(AbslView(indexed.name), kGpuPrefix);
  protozero::pbf_writer(plane.head).add_int64(xplane_field::kId, indexed.id);
  AddTextField(xplane_field::kName, indexed.name, &plane.head);
  std::string entry;
  for (const std::string_view name : indexed.event_names) {
    entry.clear();
    EncodeEventMetadata(name, &entry);
    plane.metadata_bytes += entry.size();
  }
  for (const std::string_view name : indexed.stat_names) {
    entry.clear();
    EncodeStatMetadata(name, &entry);
    plane.metadata_bytes += entry.size();
  }
  for (const std::string_view stats : indexed.stats) plane.stats_bytes += stats.size();
  for (const IndexedLine& line : indexed.lines) {
    plane.line_heads.push_back(LineHead(indexed, line, rank));
    plane.runs.push_back(PackRuns(line.segments));
  }
  return plane;
}

bool HasEvents(const IndexedPlane& plane) {
  return std::any_of(plane.lines.begin(), plane.lines.end(),
                     [](const IndexedLine& line) { return !line.segments.empty(); });
}

// Encodes the session's own stats for `Task Environment`, which may already have `first_id - 1`
// stats.
std::string EnvironmentStats(const ItemIndex& index, std::optional<int64_t> zero_unix_ns,
                             uint64_t first_id) {
  std::string metadata;
  StatsEncoder stats(StatsOf::kPlane);
  uint64_t id = first_id;
  if (index.has_summary) {
    // The same instant in all traces of a run, although the workers' own clocks differ.
    const auto start_ns = static_cast<uint64_t>(index.summary.client_zero_unix_ns() != 0
                                                    ? index.summary.client_zero_unix_ns()
                                                    : index.summary.zero_unix_ns());
    EncodeStatMetadata(id, "profile_start_time", &metadata);
    stats.Uint64(id++, start_ns);
    EncodeStatMetadata(id, "profile_stop_time", &metadata);
    stats.Uint64(id++, start_ns + index.summary.duration_ns());
    EncodeStatMetadata(id, "jobscope_summary", &metadata);
    stats.Bytes(id++, index.summary_bytes);
  } else if (zero_unix_ns.has_value()) {
    EncodeStatMetadata(id, "profile_start_time", &metadata);
    stats.Uint64(id++, static_cast<uint64_t>(*zero_unix_ns));
  }
  if (!index.clocks.empty()) {
    EncodeStatMetadata(id, "jobscope_clock", &metadata);
    for (const std::string_view clock : index.clocks) stats.Bytes(id, clock);
  }
  return absl::StrCat(metadata, AbslView(stats.bytes()));
}

// Returns a name that no other plane has. A device plane becomes a custom plane: a second GPU plane
// would be analysed as another GPU. `next` holds the first number to try for each stem, because a
// thousand planes of one name would otherwise need quadratic time.
std::string FreeName(absl::string_view name, const HashSet<std::string>& taken,
                     HashMap<std::string, int>* next) {
  constexpr absl::string_view kDevice = "/device:";
  const std::string stem = absl::StartsWith(name, kDevice)
                               ? absl::StrCat("/device:CUSTOM:", name.substr(kDevice.size()))
                               : std::string(name);
  int& suffix = next->emplace(stem, 2).first->second;
  while (true) {
    std::string candidate = absl::StrCat(stem, " (", suffix++, ")");
    if (!taken.contains(candidate)) return candidate;
  }
}

}  // namespace

void AddTextField(uint32_t field, std::string_view text, std::string* out) {
  protozero::pbf_writer(*out).add_string(field, text.data(), text.size());
}

OutputPlanes MakeOutputPlanes(const ItemIndex& index, std::optional<int64_t> zero_unix_ns,
                              std::optional<int> rank, std::vector<std::string>* warnings) {
  OutputPlanes output;
  HashSet<std::string> taken;
  bool has_environment = false;
  int64_t max_id = 0;
  for (const IndexedPlane& indexed : index.planes) {
    max_id = std::max(max_id, indexed.id);
    OutputPlane plane = MakePlane(indexed, rank);
    // XProf shows no steps at all if there is a GPU plane without events.
    if (plane.needs_events && !HasEvents(indexed)) {
      output.lacks_gpu = true;
      continue;
    }
    if (indexed.name == kTaskEnvironment) {
      has_environment = true;
      plane.extra = EnvironmentStats(index, zero_unix_ns, indexed.stat_names.size() + 1);
    }
    taken.emplace(indexed.name);
    output.planes.push_back(std::move(plane));
  }
  if (!has_environment) {
    OutputPlane plane;
    plane.extra = EnvironmentStats(index, zero_unix_ns, 1);
    if (!plane.extra.empty()) {
      const int64_t id = max_id == std::numeric_limits<int64_t>::max() ? max_id : max_id + 1;
      protozero::pbf_writer(plane.head).add_int64(xplane_field::kId, id);
      AddTextField(xplane_field::kName, kTaskEnvironment, &plane.head);
      taken.emplace(kTaskEnvironment);
      output.planes.push_back(std::move(plane));
    }
  }
  HashMap<std::string, int> next_suffix;
  for (const IndexedRawPlane& raw : index.raw_planes) {
    if (raw.events == 0 && absl::StartsWith(raw.name, kGpuPrefix)) continue;
    OutputRawPlane plane{raw.bytes, {}, raw.events};
    if (!taken.insert(raw.name).second) {
      const std::string name = FreeName(raw.name, taken, &next_suffix);
      AddTextField(xplane_field::kName, name, &plane.new_name);
      warnings->push_back(absl::StrCat("a framework's plane is called ", raw.name,
                                       " like another one and was renamed to ", name));
      taken.insert(name);
    }
    output.raw_planes.push_back(std::move(plane));
  }
  return output;
}

}  // namespace jobscope::xspace
