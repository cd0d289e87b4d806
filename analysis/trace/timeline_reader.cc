// SPDX-License-Identifier: Apache-2.0
#include "analysis/trace/timeline_reader.h"

#include <algorithm>
#include <exception>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "analysis/trace/event_kinds.h"
#include "common/text/utf8.h"
#include "common/xspace/segment/trace_planes.h"

namespace jobscope::analysis {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

constexpr size_t kMaxLines = 256;
constexpr size_t kMaxLineName = 64;

bool BySpan(const TimelineBlock& a, const TimelineBlock& b) {
  return std::make_tuple(a.line, a.span.begin_ns, -a.span.end_ns) <
         std::make_tuple(b.line, b.span.begin_ns, -b.span.end_ns);
}

// Lays out the events of one line and window: short neighbours of one row and class are joined.
class LineBlocks {
 public:
  LineBlocks(const Interval& window, std::vector<TimelineBlock>* blocks)
      : window_(window),
        short_ns_(window.length_ns() / TimelineReader::kShortest),
        blocks_(blocks) {}

  void Add(TimelineBlock block) {
    block.span.begin_ns = std::max(block.span.begin_ns, window_.begin_ns);
    block.span.end_ns = std::min(block.span.end_ns, window_.end_ns);
    if (block.span.length_ns() <= 0) return;
    size_t row = 0;
    while (row < rows_.size() && (*blocks_)[rows_[row]].span.end_ns > block.span.begin_ns) ++row;
    const bool has_room =
        blocks_->size() < kMaxShort || block.span.length_ns() >= std::max<int64_t>(1, short_ns_);
    if (row == kMaxRows || !has_room) {
      ++left_out_;
      return;
    }
    if (row == rows_.size()) {
      rows_.push_back(blocks_->size());
    } else {
      TimelineBlock& last = (*blocks_)[rows_[row]];
      const bool is_short = block.span.length_ns() < short_ns_ &&
                            (last.events > 1 || last.span.length_ns() < short_ns_);
      if (is_short && last.what == block.what &&
          block.span.begin_ns - last.span.end_ns < short_ns_) {
        last.span.end_ns = block.span.end_ns;
        ++last.events;
        return;
      }
      rows_[row] = blocks_->size();
    }
    blocks_->push_back(block);
  }
  uint64_t left_out() const { return left_out_; }

 private:
  // A line with more events side by side, such as asynchronous operations, shows the first ones.
  static constexpr size_t kMaxRows = 16;
  // Short blocks that cannot be joined, because their classes alternate.
  static constexpr size_t kMaxShort = 4096;

  const Interval window_;
  const int64_t short_ns_;
  std::vector<TimelineBlock>* blocks_;
  std::vector<size_t> rows_;  // the last block of each row
  uint64_t left_out_ = 0;
};

uint32_t WhatOf(const EventMeaning& meaning, const EventFacts& facts) {
  if (facts.root && facts.step.has_value()) return kStepItself;
  EventKind kind = meaning.kind;
  if (facts.input) kind = EventKind::kInput;
  if (facts.compilation) kind = EventKind::kCompilation;
  if (facts.collective) kind = EventKind::kCollective;
  return static_cast<uint32_t>(ClassOf(kind));
}

}  // namespace

TimelineReader::TimelineReader(Intervals windows, int64_t base_ns) : base_ns_(base_ns) {
  for (const Interval& window : windows) windows_.push_back({window, {}, 0});
}

absl::Status TimelineReader::Read(std::string_view xspace,
                                  const std::vector<LineStretch>& stretches,
                                  const MappedFile* file) {
  passed_ = PassedPages(file);
  absl::Status status;
  try {
    pbf_reader space(xspace.data(), xspace.size());
    while (space.next()) {
      if (space.tag() != xspace::xspace_field::kPlanes ||
          space.wire_type() != pbf_wire_type::length_delimited) {
        space.skip();
        continue;
      }
      const std::string_view bytes = View(space.get_view());
      const std::string_view name = PlaneName({bytes.data(), bytes.size()}, &passed_);
      if (name == kHostPlaneName || name == kAsyncPlaneName || IsDevicePlane(name)) {
        ReadPlane({xspace, stretches}, name, bytes);
      }
    }
  } catch (const std::exception& error) {  // protozero's way to say that bytes are malformed
    status = absl::InvalidArgumentError(absl::StrCat("not an XSpace, or cut off: ", error.what()));
  }
  return file == nullptr || file->status().ok() ? status : file->status();
}

void TimelineReader::ReadPlane(const File& file, std::string_view name, std::string_view bytes) {
  const bool is_device = IsDevicePlane(name);
  PlaneEvents events(ReadPlaneNames({bytes.data(), bytes.size()}, &passed_), &names_, is_device);
  pbf_reader lines(bytes.data(), bytes.size());
  passed_.BeginAt(bytes.data());
  while (lines.next(xspace::xplane_field::kLines, pbf_wire_type::length_delimited)) {
    passed_.Pass(lines.data().data());
    const std::string_view line = View(lines.get_view());
    const LineHeader header = ReadLineHeader({line.data(), line.size()});
    if (header.name == kCountersLineName || (is_device && IsDerivedLine(name, header.name))) {
      continue;
    }
    ReadLine(file, name, header, name == kHostPlaneName, &events, line);
  }
}

template <typename Callback>
void TimelineReader::ForEachEventInWindows(const File& file, std::string_view line,
                                           Callback&& callback) {
  auto from = static_cast<size_t>(line.data() - file.bytes.data());
  const size_t end = from + line.size();
  auto stretch =
      std::upper_bound(file.stretches.begin(), file.stretches.end(), from,
                       [](size_t byte, const LineStretch& a) { return byte < a.end_byte; });
  for (; stretch != file.stretches.end() && stretch->end_byte <= end; ++stretch) {
    passed_.Pass(file.bytes.data() + from);
    const Interval& span = stretch->span;
    if (std::any_of(windows_.begin(), windows_.end(), [&](const Window& window) {
          return span.begin_ns < window.span.end_ns && window.span.begin_ns < span.end_ns;
        })) {
      ForEachEvent(file.bytes.substr(from, stretch->end_byte - from), callback);
    }
    from = stretch->end_byte;
  }
}

void TimelineReader::ReadLine(const File& file, std::string_view plane, const LineHeader& header,
                              bool is_host, PlaneEvents* events, std::string_view bytes) {
  if (windows_.empty()) return;
  std::vector<std::vector<TimelineBlock>> found(windows_.size());
  std::vector<LineBlocks> layouts;
  layouts.reserve(windows_.size());
  for (size_t i = 0; i < windows_.size(); ++i) layouts.emplace_back(windows_[i].span, &found[i]);
  size_t first = 0;  // windows before it ended before the events that come
  int64_t last_begin_ns = INT64_MIN;
  ForEachEventInWindows(file, bytes, [&](const RawEvent& raw) {
    const Interval span = SpanOf(header, raw, base_ns_);
    if (span.begin_ns < last_begin_ns) first = 0;
    last_begin_ns = span.begin_ns;
    while (first < windows_.size() && windows_[first].span.end_ns <= span.begin_ns) ++first;
    if (first == windows_.size() || span.end_ns <= windows_[first].span.begin_ns) return;
    const EventMeaning& meaning = events->MeaningOf(raw.metadata_id);
    const EventFacts facts =
        is_host ? events->FactsOf(raw, meaning.facts) : EventFacts(meaning.facts);
    TimelineBlock block;
    block.span = span;
    block.name = meaning.name;
    block.what = WhatOf(meaning, facts);
    for (size_t i = first; i < windows_.size() && windows_[i].span.begin_ns < span.end_ns; ++i) {
      layouts[i].Add(block);
    }
  });
  for (size_t i = 0; i < windows_.size(); ++i) {
    windows_[i].left_out += layouts[i].left_out();
    if (found[i].empty()) continue;
    const uint32_t line = LineOf(plane, header);
    if (line == kMaxLines) return;
    std::vector<TimelineBlock>& blocks = windows_[i].blocks;
    for (TimelineBlock& block : found[i]) {
      block.line = line;
      blocks.push_back(block);
    }
    if (blocks.size() > 2 * kMaxBlocks) Prune(&windows_[i]);
  }
}

uint32_t TimelineReader::LineOf(std::string_view plane, const LineHeader& header) {
  const auto [entry, added] = line_indices_.emplace(std::make_pair(std::string(plane), header.id),
                                                    static_cast<uint32_t>(line_names_.size()));
  if (!added) return entry->second;
  if (line_names_.size() == kMaxLines) {
    line_indices_.erase(entry);
    return kMaxLines;
  }
  constexpr std::string_view kDevice = "/device:";
  std::string name = CleanUtf8(header.name, kMaxLineName);
  if (IsDevicePlane(plane)) {
    name = absl::StrCat(std::string(plane.substr(kDevice.size())), " ", name);
  } else if (plane == kHostPlaneName) {
    name = CleanUtf8(header.name.substr(0, header.name.rfind('/')), kMaxLineName);
  }
  line_names_.push_back(std::move(name));
  return entry->second;
}

// The longest of each line come first, then the longest of all.
void TimelineReader::Prune(Window* window) {
  std::vector<TimelineBlock>& blocks = window->blocks;
  if (blocks.size() <= kMaxBlocks) return;
  std::stable_sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) {
    return a.span.length_ns() > b.span.length_ns();
  });
  std::map<uint32_t, size_t> of_line;
  std::stable_partition(blocks.begin(), blocks.end(), [&](const TimelineBlock& block) {
    return ++of_line[block.line] <= kMinOfLine;
  });
  for (size_t i = kMaxBlocks; i < blocks.size(); ++i) window->left_out += blocks[i].events;
  blocks.resize(kMaxBlocks);
}

std::vector<TimelineBlock> TimelineReader::TakeBlocks(size_t window) {
  Prune(&windows_[window]);
  std::vector<TimelineBlock> blocks = std::move(windows_[window].blocks);
  std::stable_sort(blocks.begin(), blocks.end(), BySpan);
  return blocks;
}

}  // namespace jobscope::analysis
