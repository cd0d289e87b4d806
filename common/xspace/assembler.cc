// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assembler.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <protozero/pbf_writer.hpp>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/xspace/absl_view.h"
#include "common/xspace/fields.h"
#include "common/xspace/item_index.h"
#include "common/xspace/line_merge.h"
#include "common/xspace/loss_text.h"
#include "common/xspace/metadata_encoder.h"
#include "common/xspace/output_buffer.h"
#include "common/xspace/part_plan.h"
#include "common/xspace/stats.h"
#include "common/xspace/utf8.h"
#include "common/xspace/wire.h"

namespace jobscope::xspace {
namespace {

constexpr std::string_view kTaskEnvironment = "Task Environment";
constexpr absl::string_view kGpuPrefix = "/device:GPU:";
constexpr int64_t kEndOfTime = std::numeric_limits<int64_t>::max();
// A file that protobuf can still read has less than 2 GiB.
constexpr uint64_t kHardPartLimitBytes = uint64_t{1900} << 20;
// Each part repeats all names, so parts without number would take more room than the events.
constexpr uint64_t kMaxParts = 4096;
// The text that tells which part it is.
constexpr uint64_t kPartTextRoom = 256;

// A plane as it will be written: what the index says, and all that is the same in each part.
struct OutputPlane {
  const IndexedPlane* indexed = nullptr;  // null: a plane that has nothing but `extra`
  bool needs_events = false;              // left out of a part that holds no events of it
  std::string head;                       // id, name
  std::string extra;                      // metadata and stats that the assembler adds
  uint64_t metadata_bytes = 0;            // of the indexed names
  uint64_t stats_bytes = 0;               // of the indexed stats
  std::vector<std::string> line_heads;    // XLine without its events
  std::vector<std::vector<Run>> runs;     // of each line
};

// A framework's plane: its bytes, and a name that follows them and so replaces theirs.
struct OutputRawPlane {
  std::string_view bytes;
  std::string new_name;  // an XPlane.name field, or empty
  uint64_t events = 0;
};

// Sizes of one part.
struct Layout {
  struct Plane {
    bool present = false;
    uint64_t content_bytes = 0;
    std::vector<uint64_t> line_event_bytes;
  };
  std::vector<Plane> planes;
  uint64_t size_bytes = 0;
  uint64_t events = 0;
};

void AddTextField(uint32_t field, std::string_view text, std::string* out) {
  protozero::pbf_writer(*out).add_string(field, text.data(), text.size());
}

std::string LineHead(const IndexedLine& line) {
  std::string head;
  protozero::pbf_writer writer(head);
  writer.add_int64(xline_field::kId, line.key);
  if (!line.name.empty()) AddTextField(xline_field::kName, line.name, &head);
  if (line.end != 0) writer.add_uint64(xline_field::kDurationPs, FromSpread(line.end));
  if (!line.display_name.empty()) {
    AddTextField(xline_field::kDisplayName, line.display_name, &head);
  }
  return head;
}

OutputPlane MakePlane(const IndexedPlane& indexed) {
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
    plane.line_heads.push_back(LineHead(line));
    plane.runs.push_back(PackRuns(line.segments));
  }
  return plane;
}

bool HasEvents(const IndexedPlane& plane) {
  return std::any_of(plane.lines.begin(), plane.lines.end(),
                     [](const IndexedLine& line) { return !line.segments.empty(); });
}

// What the session has to say about itself: stats of `Task Environment`, after `first_id - 1` stats
// that it may have.
std::string EnvironmentStats(const ItemIndex& index, uint64_t first_id) {
  std::string metadata;
  StatsEncoder stats(StatsOf::kPlane);
  uint64_t id = first_id;
  if (!index.summary_bytes.empty()) {
    const auto start_ns = static_cast<uint64_t>(index.summary.zero_unix_ns());
    EncodeStatMetadata(id, "profile_start_time", &metadata);
    stats.Uint64(id++, start_ns);
    EncodeStatMetadata(id, "profile_stop_time", &metadata);
    stats.Uint64(id++, start_ns + index.summary.duration_ns());
    EncodeStatMetadata(id, "jobscope_summary", &metadata);
    stats.Bytes(id++, index.summary_bytes);
  }
  if (!index.clocks.empty()) {
    EncodeStatMetadata(id, "jobscope_clock", &metadata);
    for (const std::string_view clock : index.clocks) stats.Bytes(id, clock);
  }
  return absl::StrCat(metadata, AbslView(stats.bytes()));
}

// A name that no other plane has. A device plane becomes a custom one: a second GPU plane would be
// analysed as another GPU.
std::string FreeName(absl::string_view name, const absl::flat_hash_set<std::string>& taken) {
  constexpr absl::string_view kDevice = "/device:";
  const std::string stem = absl::StartsWith(name, kDevice)
                               ? absl::StrCat("/device:CUSTOM:", name.substr(kDevice.size()))
                               : std::string(name);
  for (int suffix = 2;; ++suffix) {
    std::string candidate = absl::StrCat(stem, " (", suffix, ")");
    if (!taken.contains(candidate)) return candidate;
  }
}

}  // namespace

struct Assembler::State {
  ItemIndex index;
  AssembleOptions options;
  std::vector<OutputPlane> planes;
  std::vector<OutputRawPlane> raw_planes;  // in the first part
  std::string errors;                      // XSpace.errors fields
  std::string warnings;                    // XSpace.warnings fields
  std::string hostnames;                   // XSpace.hostnames fields
  std::vector<Part> parts;

  void MakePlanes(std::vector<std::string>* texts);
  void MakeTexts(const std::vector<std::string>& warning_texts);
  void MakeParts();
  uint64_t FixedBytes() const;
  std::string PartText(size_t part) const;
  Layout Measure(size_t part) const;
  void WritePlane(const OutputPlane& plane, const Layout::Plane& layout, const Part& part,
                  OutputBuffer* out) const;
};

void Assembler::State::MakePlanes(std::vector<std::string>* texts) {
  absl::flat_hash_set<std::string> taken;
  bool has_environment = false;
  int64_t max_id = 0;
  for (const IndexedPlane& indexed : index.planes) {
    max_id = std::max(max_id, indexed.id);
    OutputPlane plane = MakePlane(indexed);
    // XProf shows no steps at all beside a GPU plane without events.
    if (plane.needs_events && !HasEvents(indexed)) continue;
    if (indexed.name == kTaskEnvironment) {
      has_environment = true;
      plane.extra = EnvironmentStats(index, indexed.stat_names.size() + 1);
    }
    taken.emplace(indexed.name);
    planes.push_back(std::move(plane));
  }
  if (!has_environment) {
    OutputPlane plane;
    plane.extra = EnvironmentStats(index, 1);
    if (!plane.extra.empty()) {
      const int64_t id = max_id == kEndOfTime ? max_id : max_id + 1;
      protozero::pbf_writer(plane.head).add_int64(xplane_field::kId, id);
      AddTextField(xplane_field::kName, kTaskEnvironment, &plane.head);
      taken.emplace(kTaskEnvironment);
      planes.push_back(std::move(plane));
    }
  }
  for (const IndexedRawPlane& raw : index.raw_planes) {
    if (raw.events == 0 && absl::StartsWith(raw.name, kGpuPrefix)) continue;
    OutputRawPlane plane{raw.bytes, {}, raw.events};
    if (!taken.insert(raw.name).second) {
      const std::string name = FreeName(raw.name, taken);
      AddTextField(xplane_field::kName, name, &plane.new_name);
      texts->push_back(absl::StrCat("a framework's plane is called ", raw.name,
                                    " like another one and was renamed to ", name));
      taken.insert(name);
    }
    raw_planes.push_back(std::move(plane));
  }
}

void Assembler::State::MakeTexts(const std::vector<std::string>& warning_texts) {
  for (const std::string& text : index.summary.errors()) {
    AddTextField(xspace_field::kErrors, text, &errors);
  }
  for (const std::string& text : warning_texts) {
    AddTextField(xspace_field::kWarnings, text, &warnings);
  }
  std::string scratch;
  AddTextField(xspace_field::kHostnames, ToUtf8(options.hostname, &scratch), &hostnames);
}

// What every part takes at most, whatever events are in it.
uint64_t Assembler::State::FixedBytes() const {
  constexpr uint64_t kLengthField = 1 + 5;  // tag and length of at most 2 GiB
  uint64_t bytes = errors.size() + warnings.size() + hostnames.size() + kPartTextRoom;
  for (const OutputPlane& plane : planes) {
    bytes += kLengthField + plane.head.size() + plane.extra.size() + plane.metadata_bytes +
             plane.stats_bytes;
    for (const std::string& head : plane.line_heads) bytes += kLengthField + head.size();
  }
  return bytes;
}

void Assembler::State::MakeParts() {
  const uint64_t limit = std::min(options.part_limit_bytes, kHardPartLimitBytes);
  parts = {Part{0, kEndOfTime, 0, 0}};
  const Layout whole = Measure(0);
  parts[0].size_bytes = whole.size_bytes;
  parts[0].events = whole.events;
  if (whole.size_bytes <= limit) return;

  const uint64_t fixed = FixedBytes();
  uint64_t raw = 0;
  for (const OutputRawPlane& plane : raw_planes) {
    raw += BytesFieldSize(plane.bytes.size() + plane.new_name.size());
  }
  const uint64_t budget =
      std::max(limit > fixed ? limit - fixed : 0, whole.size_bytes / kMaxParts + 1);
  const std::vector<int64_t> cuts = PlanCuts(index.planes, budget > raw ? budget - raw : 0, budget);
  if (cuts.empty()) return;
  parts.clear();
  int64_t begin = 0;
  for (const int64_t cut : cuts) {
    parts.push_back({begin, cut, 0, 0});
    begin = cut;
  }
  parts.push_back({begin, kEndOfTime, 0, 0});
  for (size_t i = 0; i < parts.size(); ++i) {
    const Layout layout = Measure(i);
    parts[i].size_bytes = layout.size_bytes;
    parts[i].events = layout.events;
  }
}

std::string Assembler::State::PartText(size_t part) const {
  std::string field;
  if (parts.size() == 1) return field;
  const auto ms = [](int64_t ps) { return ps / 1000000000; };
  const std::string to =
      part + 1 == parts.size() ? "the end" : absl::StrCat(ms(parts[part].end_ps), " ms");
  AddTextField(xspace_field::kWarnings,
               absl::StrCat("part ", part + 1, " of ", parts.size(),
                            " of a trace that was cut by time: events that start from ",
                            ms(parts[part].begin_ps), " ms to ", to),
               &field);
  return field;
}

Layout Assembler::State::Measure(size_t index_of_part) const {
  const Part& part = parts[index_of_part];
  Layout layout;
  layout.size_bytes =
      errors.size() + warnings.size() + hostnames.size() + PartText(index_of_part).size();
  for (const OutputPlane& plane : planes) {
    Layout::Plane sizes;
    uint64_t events = 0;
    sizes.content_bytes =
        plane.head.size() + plane.extra.size() + plane.metadata_bytes + plane.stats_bytes;
    for (size_t i = 0; i < plane.line_heads.size(); ++i) {
      uint64_t bytes = 0;
      for (const Segment& segment : plane.indexed->lines[i].segments) {
        const Slice slice = Cut(segment, part.begin_ps, part.end_ps);
        bytes += slice.events.size();
        events += slice.count;
      }
      sizes.line_event_bytes.push_back(bytes);
      sizes.content_bytes += BytesFieldSize(plane.line_heads[i].size() + bytes);
    }
    sizes.present = events != 0 || !plane.needs_events;
    if (sizes.present) {
      layout.size_bytes += BytesFieldSize(sizes.content_bytes);
      layout.events += events;
    }
    layout.planes.push_back(std::move(sizes));
  }
  if (index_of_part == 0) {
    for (const OutputRawPlane& plane : raw_planes) {
      layout.size_bytes += BytesFieldSize(plane.bytes.size() + plane.new_name.size());
      layout.events += plane.events;
    }
  }
  return layout;
}

namespace {

void WriteBytesHeader(uint32_t field, uint64_t size, OutputBuffer* out) {
  char header[1 + kMaxVarintBytes];
  header[0] = BytesTag(field);
  const char* const end = WriteVarint(header + 1, size);
  out->Copy(std::string_view(header, static_cast<size_t>(end - header)));
}

}  // namespace

void Assembler::State::WritePlane(const OutputPlane& plane, const Layout::Plane& layout,
                                  const Part& part, OutputBuffer* out) const {
  WriteBytesHeader(xspace_field::kPlanes, layout.content_bytes, out);
  out->Copy(plane.head);
  for (size_t i = 0; i < plane.line_heads.size(); ++i) {
    const uint64_t bytes = layout.line_event_bytes[i];
    WriteBytesHeader(xplane_field::kLines, plane.line_heads[i].size() + bytes, out);
    out->Copy(plane.line_heads[i]);
    if (bytes == 0) continue;
    WriteEvents(plane.indexed->lines[i].segments, plane.runs[i], part.begin_ps, part.end_ps, out);
  }
  if (plane.indexed != nullptr) {
    std::string entry;
    for (const std::string_view name : plane.indexed->event_names) {
      entry.clear();
      EncodeEventMetadata(name, &entry);
      out->Copy(entry);
    }
    for (const std::string_view name : plane.indexed->stat_names) {
      entry.clear();
      EncodeStatMetadata(name, &entry);
      out->Copy(entry);
    }
    for (const std::string_view stats : plane.indexed->stats) out->Stable(stats);
  }
  out->Copy(plane.extra);
}

absl::StatusOr<Assembler> Assembler::Create(absl::Span<const ItemView> items,
                                            AssembleOptions options) {
  absl::StatusOr<ItemIndex> index = IndexItems(items);
  if (!index.ok()) return index.status();
  auto state = std::make_unique<State>();
  state->index = *std::move(index);
  state->options = std::move(options);
  std::vector<std::string> texts = Warnings(state->index);
  state->MakePlanes(&texts);
  state->MakeTexts(texts);
  state->MakeParts();
  return Assembler(state.release());
}

Assembler::Assembler(State* state) : state_(state) {}

Assembler::Assembler(Assembler&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}

Assembler& Assembler::operator=(Assembler&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Assembler::~Assembler() { delete state_; }

const std::vector<Part>& Assembler::parts() const { return state_->parts; }

uint64_t Assembler::events() const {
  uint64_t events = 0;
  for (const Part& part : state_->parts) events += part.events;
  return events;
}

absl::Status Assembler::Write(size_t index, ByteSink* sink) const {
  if (index >= state_->parts.size()) {
    return absl::OutOfRangeError(
        absl::StrCat("part ", index, " of ", state_->parts.size(), " was asked for"));
  }
  const Part& part = state_->parts[index];
  const Layout layout = state_->Measure(index);
  OutputBuffer out(sink);
  for (size_t i = 0; i < layout.planes.size(); ++i) {
    if (layout.planes[i].present) {
      state_->WritePlane(state_->planes[i], layout.planes[i], part, &out);
    }
  }
  if (index == 0) {
    for (const OutputRawPlane& plane : state_->raw_planes) {
      WriteBytesHeader(xspace_field::kPlanes, plane.bytes.size() + plane.new_name.size(), &out);
      out.Stable(plane.bytes);
      out.Copy(plane.new_name);
    }
  }
  out.Copy(state_->errors);
  out.Copy(state_->PartText(index));
  out.Copy(state_->warnings);
  out.Copy(state_->hostnames);
  if (absl::Status status = out.Finish(); !status.ok()) return status;
  if (out.written() != part.size_bytes) {
    return absl::InternalError(absl::StrCat("part ", index, " took ", out.written(),
                                            " bytes instead of ", part.size_bytes,
                                            ": the items changed while they were read"));
  }
  return absl::OkStatus();
}

}  // namespace jobscope::xspace
