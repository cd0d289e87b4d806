// SPDX-License-Identifier: Apache-2.0
#include "analysis/trace/trace_reader.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "analysis/trace/event_kinds.h"
#include "analysis/trace/plane_events.h"
#include "common/text/utf8.h"
#include "common/xspace/assemble/scan.h"
#include "common/xspace/segment/trace_planes.h"

namespace jobscope::analysis {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;
using xspace::Reader;

// Bounds the times of events: 20 hours, as in jobscope's own traces; sums of foreign numbers must
// not overflow.
constexpr int64_t kMaxTimeNs = int64_t{1} << 46;
constexpr size_t kMaxTextBytes = 128;
constexpr std::string_view kMonitorPlane = "/device:CUSTOM:NVML:";

CollectiveEvent CollectiveOf(const EventFacts& facts, const std::string& name,
                             const CollectiveSpan& call) {
  CollectiveEvent collective;
  collective.call = call;
  collective.name = name;
  collective.group = facts.group.empty() && facts.group_number.has_value()
                         ? absl::StrCat(*facts.group_number)
                         : CleanUtf8(facts.group, kMaxTextBytes);
  collective.sequence = facts.sequence;
  collective.bytes = facts.bytes;
  collective.group_size = facts.group_size;
  return collective;
}

// Returns whether a line is sorted by begin, longest first. Calls `behind` after each event.
template <typename Callback>
bool IsSorted(std::string_view line, Callback&& behind) {
  bool sorted = true;
  int64_t begin_ps = INT64_MIN;
  int64_t duration_ps = 0;
  ForEachEvent(line, [&](const RawEvent& event) {
    sorted = sorted && (event.offset_ps > begin_ps ||
                        (event.offset_ps == begin_ps && event.duration_ps <= duration_ps));
    begin_ps = event.offset_ps;
    duration_ps = event.duration_ps;
    behind(event);
  });
  return sorted;
}

std::string_view ThreadNameOf(std::string_view line_name) {
  return line_name.substr(0, line_name.rfind('/'));
}

}  // namespace

// State shared by the lines of one plane.
struct TraceReader::Plane {
  Plane(PlaneNames names, NameTable* table, bool of_device)
      : events(std::move(names), table, of_device) {}
  PlaneEvents events;
  LineHeader header;  // of the current line
  std::string name;
};

absl::Status TraceReader::Read(std::string_view xspace, const MappedFile* file) {
  file_ = xspace.data();
  passed_ = PassedPages(file);
  stretches_.clear();
  absl::Status status;
  try {
    ReadSpace(xspace);
  } catch (const std::exception& error) {  // protozero throws on malformed bytes
    status = absl::InvalidArgumentError(absl::StrCat("not an XSpace, or cut off: ", error.what()));
  }
  return file == nullptr || file->status().ok() ? status : file->status();
}

std::unique_ptr<WorkerTrace> TraceReader::Finish() {
  for (auto& [id, line] : trace_->threads) line->Finish();
  trace_->of_unknown_group = kernels_.Join(&trace_->collectives);
  for (DeviceTimes* times : {&trace_->device_compute, &trace_->device_copy}) {
    times->spans = Union(std::move(times->spans));
  }
  return std::move(trace_);
}

void TraceReader::ReadSpace(std::string_view xspace) {
  pbf_reader space = Reader(xspace);
  while (space.next()) {
    if (space.wire_type() != pbf_wire_type::length_delimited) {
      space.skip();
      continue;
    }
    const protozero::pbf_tag_type field = space.tag();  // not known any more after get_view()
    const std::string_view bytes = View(space.get_view());
    if (field == xspace::xspace_field::kHostnames) {
      constexpr size_t kMaxHostnames = 16;
      if (trace_->hostnames.size() < kMaxHostnames) trace_->hostnames.emplace_back(bytes);
      continue;
    }
    if (field != xspace::xspace_field::kPlanes) continue;
    const std::string_view name = PlaneName(Reader(bytes), &passed_);
    if (name == "Task Environment") {
      ReadEnvironment(bytes);
      continue;
    }
    const bool is_host = name == kHostPlaneName;
    const bool is_async = name == kAsyncPlaneName;
    const bool is_device = IsDevicePlane(name);
    const bool is_monitor = name.rfind(kMonitorPlane, 0) == 0;
    if (!is_host && !is_async && !is_device && !is_monitor) continue;
    Plane plane(ReadPlaneNames(Reader(bytes), &passed_),
                is_device ? &trace_->kernels : &trace_->operators, is_device);
    plane.name = std::string(name);
    if (is_device || is_monitor) ReadGpuModel(bytes, plane.events.names());
    pbf_reader lines = Reader(bytes);
    passed_.BeginAt(bytes.data());
    while (lines.next(xspace::xplane_field::kLines, pbf_wire_type::length_delimited)) {
      passed_.Pass(lines.data().data());
      const std::string_view line = View(lines.get_view());
      plane.header = ReadLineHeader(Reader(line));
      events_of_stretch_ = 0;
      if (plane.header.name == kCountersLineName || is_monitor) {
        ReadCounterLine(&plane, line);
      } else if (is_host) {
        ReadHostLine(&plane, line);
      } else if (is_async) {
        ReadAsyncLine(&plane, line);
      } else if (!IsDerivedLine(name, plane.header.name)) {
        ReadDeviceLine(&plane, line);
      }
    }
  }
}

void TraceReader::ReadEnvironment(std::string_view plane) {
  const PlaneNames names = ReadPlaneNames(Reader(plane), &passed_);
  ForEachPlaneStat(Reader(plane), &passed_, [&](const Stat& stat) {
    const auto name = names.stats.find(stat.metadata_id);
    if (name == names.stats.end() || name->second != "jobscope_summary") return;
    if (stat.text.size() > xspace::kMaxScanSummaryBytes) return;
    v1::Summary summary;
    if (summary.ParseFromArray(stat.text.data(), static_cast<int>(stat.text.size()))) {
      trace_->summary = std::move(summary);
    }
  });
}

void TraceReader::ReadGpuModel(std::string_view plane, const PlaneNames& names) {
  if (!trace_->gpu_model.empty()) return;
  ForEachPlaneStat(Reader(plane), &passed_, [&](const Stat& stat) {
    const auto name = names.stats.find(stat.metadata_id);
    if (name == names.stats.end() || name->second != "gpu_device_name") return;
    trace_->gpu_model = CleanUtf8(names.Text(stat), kMaxTextBytes);
  });
}

Interval TraceReader::Count(const LineHeader& header, const RawEvent& event) {
  ++trace_->events;
  if (base_ns_ == 0 && header.timestamp_ns > kEpochTimeNs) base_ns_ = header.timestamp_ns;
  const Interval span = SpanOf(header, event, base_ns_);
  if (events_of_stretch_ == 0) stretches_.push_back({0, span});
  LineStretch& stretch = stretches_.back();
  stretch.end_byte = static_cast<size_t>(event.message.data() + event.message.size() - file_);
  stretch.span.begin_ns = std::min(stretch.span.begin_ns, span.begin_ns);
  stretch.span.end_ns = std::max(stretch.span.end_ns, span.end_ns);
  events_of_stretch_ = (events_of_stretch_ + 1) % LineStretch::kMaxEvents;
  if (events_of_stretch_ == 0) passed_.Pass(event.message.data());
  return span;
}

Interval SpanOf(const LineHeader& header, const RawEvent& event, int64_t base_ns) {
  // Whole nanoseconds, both ends rounded down, so that touching events still touch.
  const int64_t line_ns = std::clamp(
      header.timestamp_ns > kEpochTimeNs ? header.timestamp_ns - base_ns : header.timestamp_ns,
      -kMaxTimeNs, kMaxTimeNs);
  const int64_t limit_ps = kMaxTimeNs * 1000;
  const int64_t begin_ps = std::clamp<int64_t>(event.offset_ps, -limit_ps, limit_ps);
  const int64_t end_ps = begin_ps + std::clamp<int64_t>(event.duration_ps, 0, limit_ps);
  return {line_ns + begin_ps / 1000, line_ns + end_ps / 1000};
}

void TraceReader::AddHostEvent(Plane* plane, HostLine* line, const HostEvent& event,
                               const RawEvent& raw) {
  if (!line->Add(event)) {
    // From a further part, but before the end of an earlier one: counted, but assigned to no step.
    trace_->operators.Count(event.name, event.end_ns - event.begin_ns, 0);
    return;
  }
  if (event.kind != EventKind::kCollective) return;
  const EventFacts facts =
      plane->events.FactsOf(raw, plane->events.MeaningOf(raw.metadata_id).facts);
  line->collectives().push_back(
      CollectiveOf(facts, trace_->operators[event.name].name,
                   {{event.begin_ns, event.end_ns}, /*on_device=*/false}));
}

void TraceReader::ReadHostLine(Plane* plane, std::string_view bytes) {
  const LineHeader header = plane->header;
  if (trace_->threads.size() == WorkerTrace::kMaxThreads && trace_->threads.count(header.id) == 0) {
    ++trace_->threads_left_out;
    return;
  }
  std::unique_ptr<HostLine>& line = trace_->threads[header.id];
  if (line == nullptr) {
    const std::string_view name = ThreadNameOf(header.name);
    // PyTorch runs the backward pass of devices on separate threads, and waits for them.
    line = std::make_unique<HostLine>(&trace_->operators, name.rfind("pt_autograd", 0) == 0);
  }
  // A line in another order than the format requires is sorted first.
  const bool sorted =
      IsSorted(bytes, [this](const RawEvent& event) { passed_.Pass(event.message.data()); });
  passed_.BeginAt(bytes.data());
  std::vector<std::pair<HostEvent, RawEvent>> unsorted;
  ForEachEvent(bytes, [&](const RawEvent& raw) {
    const EventMeaning& meaning = plane->events.MeaningOf(raw.metadata_id);
    const EventFacts facts = plane->events.FactsOf(raw, meaning.facts);
    HostEvent event;
    event.name = meaning.name;
    event.kind = meaning.kind;
    const Interval span = Count(header, raw);
    event.begin_ns = span.begin_ns;
    event.end_ns = span.end_ns;
    if (meaning.kind == EventKind::kAllocation || meaning.kind == EventKind::kDeallocation) {
      trace_->allocators.Add(raw, span.begin_ns, meaning.kind == EventKind::kAllocation,
                             plane->events.names());
    }
    if (meaning.launches_collective) {
      const std::optional<int64_t> correlation = plane->events.CorrelationOf(raw);
      if (correlation.has_value()) kernels_.AddLaunch(*correlation, span.begin_ns);
    }
    if (facts.enqueue) kernels_.AddCall(CollectiveOf(facts, {}, {span, /*on_device=*/false}));
    if (facts.root) event.step = facts.step;
    trace_->has_clipped_step = trace_->has_clipped_step || facts.clipped_step;
    event.not_running_ns = facts.not_running_ns;
    event.cpu_ns = facts.cpu_ns;
    if (facts.input) event.kind = EventKind::kInput;
    if (facts.compilation) event.kind = EventKind::kCompilation;
    if (facts.collective) event.kind = EventKind::kCollective;
    if (event.kind != meaning.kind) trace_->operators.SetKind(event.name, event.kind);
    if (sorted) {
      AddHostEvent(plane, line.get(), event, raw);
    } else {
      unsorted.emplace_back(event, raw);
    }
  });
  std::stable_sort(unsorted.begin(), unsorted.end(), [](const auto& a, const auto& b) {
    return std::make_tuple(a.first.begin_ns, -a.first.end_ns) <
           std::make_tuple(b.first.begin_ns, -b.first.end_ns);
  });
  for (const auto& [event, raw] : unsorted) AddHostEvent(plane, line.get(), event, raw);
}

void TraceReader::ReadAsyncLine(Plane* plane, std::string_view bytes) {
  const LineHeader header = plane->header;
  // Operations other than collectives overlap each other: they use no thread's time.
  ForEachEvent(bytes, [&](const RawEvent& raw) {
    const EventMeaning& meaning = plane->events.MeaningOf(raw.metadata_id);
    const EventFacts facts = plane->events.FactsOf(raw, meaning.facts);
    const Interval span = Count(header, raw);
    if (facts.enqueue) kernels_.AddCall(CollectiveOf(facts, {}, {span, /*on_device=*/false}));
    if (meaning.kind != EventKind::kCollective && !facts.collective) return;
    trace_->operators.Count(meaning.name, span.length_ns(), 0);
    trace_->collectives.push_back(
        CollectiveOf(facts, trace_->operators[meaning.name].name, {span, /*on_device=*/false}));
  });
}

void TraceReader::ReadDeviceLine(Plane* plane, std::string_view bytes) {
  const LineHeader header = plane->header;
  trace_->has_device = true;
  // Lines overlap each other: Finish computes the union of all.
  DeviceLine line(IsTpuPlane(plane->name), &trace_->kernels);
  ForEachEvent(bytes, [&](const RawEvent& raw) {
    const EventMeaning& meaning = plane->events.MeaningOf(raw.metadata_id);
    const Interval span = Count(header, raw);
    line.Add(meaning.name, meaning.kind, span);
    if (ClassOf(meaning.kind) != StepClass::kTransfer) return;
    const EventFacts facts = plane->events.FactsOf(raw, meaning.facts);
    const std::optional<int64_t> correlation = plane->events.CorrelationOf(raw);
    if (!facts.sequence.has_value()) {
      kernels_.AddKernel(correlation.value_or(-1), trace_->collectives.size());
    }
    trace_->collectives.push_back(
        CollectiveOf(facts, trace_->kernels[meaning.name].name, {span, /*on_device=*/true}));
  });
  line.Finish(&trace_->device_compute, &trace_->device_copy);
}

void TraceReader::ReadCounterLine(Plane* plane, std::string_view bytes) {
  const LineHeader header = plane->header;
  const PlaneNames& names = plane->events.names();
  ForEachEvent(bytes, [&](const RawEvent& raw) {
    const Interval span = Count(header, raw);
    ForEachStat(raw.message, xspace::xevent_field::kStats, [&](const Stat& stat) {
      if (stat.type != Stat::Type::kDouble && stat.type != Stat::Type::kInteger) return;
      const auto name = names.stats.find(stat.metadata_id);
      if (name == names.stats.end()) return;
      const double value =
          stat.type == Stat::Type::kDouble ? stat.number : static_cast<double>(stat.integer);
      if (!(value > -1e300 && value < 1e300)) return;  // JSON has neither NaN nor infinity
      std::string counter(name->second);
      if (plane->name.rfind(kMonitorPlane, 0) == 0) {
        // jobscope's names begin with "GPU 0 " already; two parts of one GPU have a plane each.
        if (counter.rfind("GPU ", 0) == 0) counter.erase(0, counter.find(' ', 4) + 1);
        counter = absl::StrCat("GPU ", plane->name.substr(kMonitorPlane.size()), " ", counter);
      }
      trace_->counters.Add(counter, span.begin_ns, value);
    });
  });
}

}  // namespace jobscope::analysis
