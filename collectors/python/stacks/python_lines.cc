// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/stacks/python_lines.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/xspace/segment/trace_planes.h"

namespace jobscope::python {
namespace {

constexpr int64_t kSampleLines = 0x40000000;
constexpr int64_t kCallLines = 0x41000000;

}  // namespace

PythonLines::PythonLines(xspace::ItemSink* sink, xspace::Names* names, const CodeTable* codes,
                         Kind kind)
    : sink_(sink), names_(names), codes_(codes), kind_(kind) {
  DeclarePlane();
}

void PythonLines::DeclarePlane() {
  if (plane_ == 0) plane_ = names_->Plane(kHostPlaneName, kHostPlaneId);
  if (samples_stat_ == 0 && kind_ == Kind::kSamples) {
    samples_stat_ = names_->Stat(plane_, "samples");
  }
  if (truncated_stat_ == 0) truncated_stat_ = names_->Stat(plane_, "truncated");
}

void PythonLines::Add(int64_t tid, std::string_view thread_name, const FunctionSpan& span,
                      const TraceWindow& window) {
  ++attempted_;
  if (span.end_ticks < window.start_ticks || span.begin_ticks > window.end_ticks) {
    ++outside_;
    return;
  }
  const uint64_t from = std::max(span.begin_ticks, window.start_ticks);
  const uint64_t to = std::min(span.end_ticks, window.end_ticks);
  DeclarePlane();
  stats_.Clear();
  if (span.samples > 0) stats_.Uint64(samples_stat_, span.samples);
  const bool clipped = from != span.begin_ticks || to != span.end_ticks;
  if (span.truncated || (clipped && kind_ == Kind::kCalls)) stats_.Int64(truncated_stat_, 1);
  xspace::SegmentEvent event;
  event.start_ps = window.map.ToPs(from);
  event.duration_ps = window.map.ToPs(to) - event.start_ps;
  event.metadata_id = EventId(span.code);
  event.depth = span.depth;
  event.stats = stats_.bytes();
  BuilderOf(tid, thread_name).Add(event);
}

xspace::SegmentBuilder& PythonLines::BuilderOf(int64_t tid, std::string_view thread_name) {
  Line& line = lines_[tid];
  // A thread may get its name late.
  if (line.builder != nullptr && line.name == thread_name) return *line.builder;
  line.name = std::string(thread_name);
  if (line.builder != nullptr) {
    line.builder->Declare();
    return *line.builder;
  }
  const auto declare = [this, tid] {
    const bool samples = kind_ == Kind::kSamples;
    const std::string name =
        absl::StrCat(lines_[tid].name, "/", tid, samples ? " (python samples)" : " (python calls)");
    const int64_t id = (samples ? kSampleLines : kCallLines) + tid;
    return xspace::LineKey{plane_, names_->Line(plane_, id, name)};
  };
  line.builder = std::make_unique<xspace::SegmentBuilder>(sink_, kSourcePython, declare);
  return *line.builder;
}

uint64_t PythonLines::EventId(uint32_t code) {
  if (code >= event_ids_.size()) event_ids_.resize(code + 256, 0);
  uint64_t& id = event_ids_[code];
  if (id == 0) id = names_->Event(plane_, codes_->Name(code));
  return id;
}

void PythonLines::Flush() {
  for (auto& [tid, line] : lines_) line.builder->Flush();
}

uint64_t PythonLines::events() const {
  uint64_t events = 0;
  for (const auto& [tid, line] : lines_) events += line.builder->appended_events();
  return events;
}

uint64_t PythonLines::refused() const {
  uint64_t refused = 0;
  for (const auto& [tid, line] : lines_) refused += line.builder->refused_events();
  return refused;
}

}  // namespace jobscope::python
