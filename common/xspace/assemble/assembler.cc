// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assemble/assembler.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/text/utf8.h"
#include "common/xspace/assemble/item_index.h"
#include "common/xspace/assemble/line_merge.h"
#include "common/xspace/assemble/loss_text.h"
#include "common/xspace/assemble/output_buffer.h"
#include "common/xspace/assemble/output_planes.h"
#include "common/xspace/assemble/part_plan.h"
#include "common/xspace/assemble/read_meter.h"
#include "common/xspace/assemble/step_count.h"
#include "common/xspace/segment/metadata_encoder.h"
#include "common/xspace/segment/trace_planes.h"
#include "common/xspace/wire/fields.h"
#include "common/xspace/wire/wire.h"

namespace jobscope::xspace {
namespace {

constexpr int64_t kEndOfTime = std::numeric_limits<int64_t>::max();
// Bounds the parts: each repeats all names, so unlimited parts would take more space than the
// events.
constexpr uint64_t kMaxParts = 4096;
// Space reserved for the text that gives the part's number.
constexpr uint64_t kPartTextRoom = 256;

// The stat of a launch that XProf takes for its GPU's index among the GPU planes of the file.
constexpr std::string_view kGpuOfLaunch = "device_id";
// Its name in a part that lacks one of these planes, where the index may mean another one: XProf
// then shows no Launch Stats instead of those of another GPU. Of the same length: sizes stay. All
// parts lack a plane whose events were all refused: its index was given before that was known.
constexpr std::string_view kGpuOfLaunchInTrace = "gpu_index";
static_assert(kGpuOfLaunch.size() == kGpuOfLaunchInTrace.size());

// Sizes of one part.
struct Layout {
  struct Plane {
    bool present = false;
    uint64_t content_bytes = 0;
    std::vector<uint64_t> line_event_bytes;
  };
  std::vector<Plane> planes;
  bool lacks_gpu = false;  // a GPU plane of the items
  uint64_t size_bytes = 0;
  uint64_t events = 0;
};

}  // namespace

struct Assembler::State {
  ItemIndex index;
  AssembleOptions options;
  OutputPlanes output;
  std::string errors;     // XSpace.errors fields
  std::string warnings;   // XSpace.warnings fields
  std::string hostnames;  // XSpace.hostnames fields
  std::vector<Part> parts;
  std::unique_ptr<ReadMeter> meter;  // null: pages need not be released

  explicit State(AssembleOptions what) : options(std::move(what)) {
    if (options.release_pages) meter = std::make_unique<ReadMeter>(options.release_pages);
  }
  void MakeTexts(const std::vector<std::string>& warning_texts);
  void MakeParts();
  uint64_t FixedBytes() const;
  std::string PartText(size_t part) const;
  Layout Measure(size_t part) const;
  void WritePlane(const Layout& layout, size_t index_of_plane, const Part& part,
                  OutputBuffer* out) const;
};

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

// Returns the size that every part takes regardless of its events.
uint64_t Assembler::State::FixedBytes() const {
  constexpr uint64_t kLengthField = 1 + 5;  // tag and length of at most 2 GiB
  uint64_t bytes = errors.size() + warnings.size() + hostnames.size() + kPartTextRoom;
  for (const OutputPlane& plane : output.planes) {
    bytes += kLengthField + plane.head.size() + plane.extra.size() + plane.metadata_bytes +
             plane.stats_bytes;
    for (const std::string& head : plane.line_heads) bytes += kLengthField + head.size();
  }
  return bytes;
}

void Assembler::State::MakeParts() {
  const uint64_t limit = std::min(options.part_limit_bytes, kMaxPartBytes);
  parts = {Part{0, kEndOfTime, 0, 0}};
  const Layout whole = Measure(0);
  parts[0].size_bytes = whole.size_bytes;
  parts[0].events = whole.events;
  if (whole.size_bytes <= limit) return;

  const uint64_t fixed = FixedBytes();
  uint64_t raw = 0;
  for (const OutputRawPlane& plane : output.raw_planes) {
    raw += BytesFieldSize(plane.bytes.size() + plane.new_name.size());
  }
  const uint64_t budget =
      std::max(limit > fixed ? limit - fixed : 0, whole.size_bytes / kMaxParts + 1);
  const std::vector<int64_t> cuts =
      PlanCuts(index.planes, budget > raw ? budget - raw : 0, budget, meter.get());
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
  layout.lacks_gpu = output.lacks_gpu;
  layout.size_bytes =
      errors.size() + warnings.size() + hostnames.size() + PartText(index_of_part).size();
  for (const OutputPlane& plane : output.planes) {
    Layout::Plane sizes;
    uint64_t events = 0;
    sizes.content_bytes =
        plane.head.size() + plane.extra.size() + plane.metadata_bytes + plane.stats_bytes;
    for (size_t i = 0; i < plane.line_heads.size(); ++i) {
      uint64_t bytes = 0;
      for (const Segment& segment : plane.indexed->lines[i].segments) {
        const Slice slice = Cut(segment, part.begin_ps, part.end_ps, meter.get());
        bytes += slice.events.size();
        events += slice.count;
      }
      sizes.line_event_bytes.push_back(bytes);
      sizes.content_bytes += BytesFieldSize(plane.line_heads[i].size() + bytes);
    }
    sizes.present = events != 0 || !plane.needs_events;
    layout.lacks_gpu = layout.lacks_gpu || !sizes.present;
    if (sizes.present) {
      layout.size_bytes += BytesFieldSize(sizes.content_bytes);
      layout.events += events;
    }
    layout.planes.push_back(std::move(sizes));
  }
  if (index_of_part == 0) {
    for (const OutputRawPlane& plane : output.raw_planes) {
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

void Assembler::State::WritePlane(const Layout& layout, size_t index_of_plane, const Part& part,
                                  OutputBuffer* out) const {
  const OutputPlane& plane = output.planes[index_of_plane];
  const Layout::Plane& sizes = layout.planes[index_of_plane];
  WriteBytesHeader(xspace_field::kPlanes, sizes.content_bytes, out);
  out->Copy(plane.head);
  for (size_t i = 0; i < plane.line_heads.size(); ++i) {
    const uint64_t bytes = sizes.line_event_bytes[i];
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
      if (layout.lacks_gpu && plane.indexed->name == kHostPlaneName) {
        EncodeStatMetadata(name, kGpuOfLaunch, kGpuOfLaunchInTrace, &entry);
      } else {
        EncodeStatMetadata(name, &entry);
      }
      out->Copy(entry);
    }
    for (const std::string_view stats : plane.indexed->stats) out->Stable(stats);
  }
  out->Copy(plane.extra);
}

absl::StatusOr<Assembler> Assembler::Create(absl::Span<const ItemView> items,
                                            AssembleOptions options) {
  auto state = std::make_unique<State>(std::move(options));
  absl::StatusOr<ItemIndex> index =
      IndexItems(items, state->meter.get(),
                 state->options.keep_readable ? Unreadable::kStop : Unreadable::kFail);
  if (!index.ok()) return index.status();
  state->index = *std::move(index);
  return Create(std::move(state));
}

absl::StatusOr<Assembler> Assembler::CreateIndexed(ItemIndex index, AssembleOptions options) {
  auto state = std::make_unique<State>(std::move(options));
  state->index = std::move(index);
  return Create(std::move(state));
}

absl::StatusOr<Assembler> Assembler::Create(std::unique_ptr<State> state) {
  // If no plane was indexed, no item was readable.
  const absl::Status& unreadable = state->index.unreadable;
  if (!unreadable.ok() && state->index.planes.empty()) return unreadable;
  std::vector<std::string> texts = Warnings(state->index);
  if (!unreadable.ok()) {
    texts.push_back(absl::StrCat("the trace ends early: ", unreadable.message(),
                                 "; this item and those after it were left out"));
  }
  texts.insert(texts.end(), state->options.warnings.begin(), state->options.warnings.end());
  std::optional<int> rank = state->options.rank;
  if (state->index.has_summary && state->index.summary.identity().has_rank()) {
    rank = state->index.summary.identity().rank();
  }
  state->output = MakeOutputPlanes(state->index, state->options.zero_unix_ns, rank, &texts);
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

uint64_t Assembler::CountSteps() const {
  return xspace::CountSteps(state_->index, state_->meter.get());
}

uint64_t Assembler::events() const {
  uint64_t events = 0;
  for (const Part& part : state_->parts) events += part.events;
  return events;
}

const absl::Status& Assembler::unreadable() const { return state_->index.unreadable; }

absl::Status Assembler::Write(size_t index, ByteSink* sink) const {
  if (index >= state_->parts.size()) {
    return absl::OutOfRangeError(
        absl::StrCat("part ", index, " of ", state_->parts.size(), " was asked for"));
  }
  const Part& part = state_->parts[index];
  const Layout layout = state_->Measure(index);
  OutputBuffer out(sink, state_->meter.get());
  for (size_t i = 0; i < layout.planes.size(); ++i) {
    if (layout.planes[i].present) state_->WritePlane(layout, i, part, &out);
  }
  if (index == 0) {
    for (const OutputRawPlane& plane : state_->output.raw_planes) {
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
