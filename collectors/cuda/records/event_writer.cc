// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/records/event_writer.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "collectors/cuda/records/activity_names.h"
#include "collectors/cuda/records/occupancy.h"
#include "common/xspace/segment/trace_planes.h"

namespace jobscope::cuda {
namespace {

// Plane for everything that is not work of a GPU, and for GPUs whose kernels belong to no step.
constexpr std::string_view kCustomPlaneName = "/device:CUSTOM:CUDA";
constexpr int64_t kCustomPlaneId = 101;
constexpr int64_t kCustomDevicePlaneId = 200;  // + ordinal

// Not a thread id; the host plane's line of memory events.
constexpr int64_t kMemoryLine = (int64_t{1} << 40) + 2;

// Lane bits of a line id: XProf's timeline uses 32-bit line ids, and stream numbers are small.
constexpr uint32_t kLaneShift = 24;
constexpr uint32_t kMaxLanes = 16;

// Deeper than the program's scopes, so that a call lies inside of the scope around it.
constexpr uint32_t kRuntimeDepth = 1000;
constexpr uint32_t kDriverDepth = 1001;

// Bounds the texts of launch shapes kept as names of the plane; further ones are in the events.
constexpr size_t kMaxDetails = 4096;

// Contents of a stream's line, which its name lists. XProf puts streams with "Compute" in their
// name first.
enum Contents : uint32_t {
  kCompute = 1,
  kHostToDevice = 2,
  kDeviceToHost = 4,
  kDeviceToDevice = 8,
  kMemset = 16,
  kOtherCopy = 32,
};

std::string StreamName(uint32_t stream, uint32_t lane, uint32_t contents) {
  std::string name = absl::StrCat("Stream #", stream);
  if (lane != 0) absl::StrAppend(&name, " lane ", lane + 1);
  const char* separator = "(";
  const auto add = [&](uint32_t bit, const char* text) {
    if ((contents & bit) == 0) return;
    absl::StrAppend(&name, separator, text);
    separator = ",";
  };
  add(kCompute, "Compute");
  add(kHostToDevice, "MemcpyHtoD");
  add(kDeviceToHost, "MemcpyDtoH");
  add(kDeviceToDevice, "MemcpyDtoD");
  add(kOtherCopy, "Memcpy");
  add(kMemset, "Memset");
  return name.append(")");
}

uint32_t ContentsOf(const Activity& activity) {
  switch (activity.type) {
    case ActivityType::kCopy: {
      const std::string_view name = CopyName(activity.sub_kind);
      if (name == "MemcpyHtoD") return kHostToDevice;
      if (name == "MemcpyDtoH") return kDeviceToHost;
      return name == "MemcpyDtoD" ? kDeviceToDevice : kOtherCopy;
    }
    case ActivityType::kSet:
      return kMemset;
    default:
      return kCompute;
  }
}

}  // namespace

EventWriter::EventWriter(xspace::ItemSink* sink, xspace::Names* names, ApiCalls* calls,
                         const KernelNames* kernels, ThreadNames* threads, const Window* window)
    : sink_(sink),
      names_(names),
      calls_(calls),
      kernels_(kernels),
      thread_names_(threads),
      window_(window) {}

xspace::PlaneKey EventWriter::Host() {
  if (host_ == 0) host_ = names_->Plane(kHostPlaneName, kHostPlaneId);
  return host_;
}

xspace::PlaneKey EventWriter::Custom() {
  if (custom_ == 0) custom_ = names_->Plane(kCustomPlaneName, kCustomPlaneId);
  return custom_;
}

uint64_t EventWriter::Stat(std::map<std::string_view, uint64_t>* ids, xspace::PlaneKey plane,
                           std::string_view literal) {
  uint64_t& id = (*ids)[literal];
  if (id == 0) id = names_->Stat(plane, literal);
  return id;
}

const DeviceInfo& EventWriter::InfoOf(uint32_t device) {
  const auto [at, added] = infos_.try_emplace(device);
  if (added) at->second = QueryDevice(static_cast<int>(device)).value_or(DeviceInfo());
  return at->second;
}

EventWriter::DevicePlane& EventWriter::PlaneOf(uint32_t device) {
  DevicePlane& plane = devices_[device];
  if (plane.plane != 0) return plane;
  plane.plane = custom_planes_ ? names_->Plane(absl::StrCat("/device:CUSTOM:GPU:", device),
                                               kCustomDevicePlaneId + static_cast<int64_t>(device))
                               : names_->Plane(absl::StrCat("/device:GPU:", device),
                                               static_cast<int64_t>(device));
  if (plane.plane == 0) return plane;  // the store has no space; the next event retries
  if (!custom_planes_) plane.index = next_index_++;
  WriteCapabilities(plane.plane, InfoOf(device));
  return plane;
}

bool EventWriter::has_device_planes() const {
  return std::any_of(devices_.begin(), devices_.end(),
                     [](const auto& device) { return device.second.plane != 0; });
}

void EventWriter::WriteCapabilities(xspace::PlaneKey plane, const DeviceInfo& info) {
  xspace::StatsEncoder stats(xspace::StatsOf::kPlane);
  const auto id = [&](std::string_view name) { return names_->Stat(plane, name); };
  stats.String(id("device_vendor"), "Nvidia");
  if (!info.name.empty()) stats.String(id("gpu_device_name"), info.name);
  const auto number = [&](std::string_view name, int64_t value) {
    if (value > 0) stats.Int64(id(name), value);
  };
  number("clock_rate", info.core_clock_khz);
  number("core_count", info.multiprocessors);
  number("memory_size", static_cast<int64_t>(info.memory_bytes));
  // The bus makes two transfers per clock.
  number("memory_bandwidth", int64_t{2000} * info.memory_clock_khz * info.memory_bus_bits / 8);
  if (info.compute_major > 0) {
    stats.Int64(id("compute_cap_major"), info.compute_major);
    stats.Int64(id("compute_cap_minor"), info.compute_minor);
  }
  (void)names_->AddPlaneStats(plane, stats.bytes());
}

void EventWriter::WriteOrder(uint32_t device, const Order& order) {
  const auto found = devices_.find(device);
  if (found == devices_.end()) return;
  const xspace::PlaneKey plane = found->second.plane;
  xspace::StatsEncoder stats(xspace::StatsOf::kPlane);
  stats.Uint64(names_->Stat(plane, "launches_checked"), order.launches);
  stats.Uint64(names_->Stat(plane, "started_before_launch"), order.early);
  stats.Uint64(names_->Stat(plane, "launched_but_started_after_the_window"), order.after);
  (void)names_->AddPlaneStats(plane, stats.bytes());
}

EventWriter::Line& EventWriter::LineOf(DevicePlane* plane, const TimedActivity& timed,
                                       uint32_t contents) {
  const uint32_t stream = timed.activity.stream;
  // Nodes of a graph run in parallel and all carry the stream into which the graph was launched.
  uint32_t lane = 0;
  Lane* found = &plane->lines[{stream, lane}];
  while (!found->busy.Add(timed.start_ticks, timed.end_ticks) && lane + 1 < kMaxLanes) {
    found = &plane->lines[{stream, ++lane}];
  }
  Lane& line = *found;
  if (line.builder != nullptr && (line.contents & contents) == contents) return line;
  line.contents |= contents;
  if (line.builder != nullptr) {
    line.builder->Declare();  // under its new name
    return line;
  }
  const auto declare = [this, plane, &line, stream, lane] {
    const int64_t id = int64_t{stream} + (int64_t{lane} << kLaneShift);
    const std::string name = StreamName(stream, lane, line.contents);
    return xspace::LineKey{plane->plane, names_->Line(plane->plane, id, name)};
  };
  line.builder = std::make_unique<xspace::SegmentBuilder>(sink_, kSourceCuda, declare);
  return line;
}

void EventWriter::TieTo(std::map<std::string_view, uint64_t>* ids, xspace::PlaneKey plane,
                        const StepSpan* step) {
  if (step == nullptr) return;
  stats_.Int64(Stat(ids, plane, "_ct"), kStepContextType);
  stats_.Uint64(Stat(ids, plane, "_c"), step->begin_ticks);
}

void EventWriter::Add(Line* line, std::map<std::string_view, uint64_t>* ids, xspace::PlaneKey plane,
                      const TimedActivity& timed, uint64_t event_id, uint32_t depth) {
  const uint64_t from = std::max(timed.start_ticks, window_->start_ticks);
  const uint64_t to = std::min(timed.end_ticks, window_->end_ticks);
  if (from != timed.start_ticks || to != timed.end_ticks || timed.unfinished) {
    stats_.Int64(Stat(ids, plane, "truncated"), 1);
    if (from != timed.start_ticks) {
      stats_.Int64(Stat(ids, plane, "true_start_ns"), window_->map.ToPs(timed.start_ticks) / 1000);
    }
    if (to != timed.end_ticks && !timed.unfinished) {
      stats_.Int64(Stat(ids, plane, "true_end_ns"), window_->map.ToPs(timed.end_ticks) / 1000);
    }
  }
  xspace::SegmentEvent event;
  event.start_ps = window_->map.ToPs(from);
  event.duration_ps = window_->map.ToPs(std::max(from, to)) - event.start_ps;
  event.metadata_id = event_id;
  event.depth = depth;
  event.stats = stats_.bytes();
  line->builder->Add(event);
}

void EventWriter::KernelStats(DevicePlane* plane, const Activity& kernel) {
  std::string details = absl::StrFormat(
      "regs:%d static_shared:%d dynamic_shared:%d grid:%d,%d,%d block:%d,%d,%d", kernel.registers,
      kernel.static_shared_bytes, kernel.dynamic_shared_bytes, kernel.grid[0], kernel.grid[1],
      kernel.grid[2], kernel.block[0], kernel.block[1], kernel.block[2]);
  if (kernel.cluster[0] > 1 || kernel.cluster[1] > 1 || kernel.cluster[2] > 1) {
    absl::StrAppendFormat(&details, " cluster:%u,%u,%u", kernel.cluster[0], kernel.cluster[1],
                          kernel.cluster[2]);
  }
  if (kernel.local_bytes_per_thread != 0) {
    absl::StrAppend(&details, " local:", kernel.local_bytes_per_thread);
  }
  const std::optional<double> occupancy = OccupancyPercent(kernel, InfoOf(kernel.device));
  absl::StrAppendFormat(&details, " occ_pct:%.4g", occupancy.value_or(0));
  const uint64_t id = Stat(&plane->stats, plane->plane, "kernel_details");
  const auto known = plane->details.find(details);
  if (known != plane->details.end()) {
    stats_.Ref(id, known->second);
  } else if (const uint64_t text =
                 plane->details.size() < kMaxDetails ? names_->Stat(plane->plane, details) : 0;
             text != 0) {
    stats_.Ref(id, text);
    plane->details.emplace(std::move(details), text);
  } else {
    stats_.String(id, details);
  }
  if (occupancy.has_value()) {
    stats_.Double(Stat(&plane->stats, plane->plane, "theoretical_occupancy_pct"), *occupancy);
  }
}

void EventWriter::Device(const TimedActivity& timed, const StepSpan* step) {
  const Activity& activity = timed.activity;
  DevicePlane& plane = PlaneOf(activity.device);
  Line& line = LineOf(&plane, timed, ContentsOf(activity));
  const auto stat = [&](std::string_view name) { return Stat(&plane.stats, plane.plane, name); };
  stats_.Clear();
  stats_.Uint64(stat("correlation_id"), activity.correlation);
  stats_.Int64(stat("device_id"), activity.device);
  stats_.Int64(stat("context_id"), activity.context);
  uint64_t event_id = 0;
  switch (activity.type) {
    case ActivityType::kKernel:
      if (plane.kernel_events.size() <= timed.name) plane.kernel_events.resize(timed.name + 1);
      if (plane.kernel_events[timed.name] == 0) {
        plane.kernel_events[timed.name] = names_->Event(plane.plane, kernels_->Name(timed.name));
      }
      event_id = plane.kernel_events[timed.name];
      KernelStats(&plane, activity);
      break;
    case ActivityType::kCopy:
      event_id = names_->Event(plane.plane, CopyName(activity.sub_kind));
      stats_.String(stat("memcpy_details"), CopyDetails(activity));
      break;
    default:
      event_id = names_->Event(plane.plane, "Memset");
      stats_.String(stat("memset_details"), SetDetails(activity));
  }
  if (activity.graph != 0) stats_.Uint64(stat("cuda_graph_id"), activity.graph);
  if (activity.graph_node != 0) stats_.Uint64(stat("cuda_graph_node_id"), activity.graph_node);
  TieTo(&plane.stats, plane.plane, step);
  Add(&line, &plane.stats, plane.plane, timed, event_id, 0);
}

void EventWriter::Api(const TimedActivity& timed, const Launched* launched, const StepSpan* step) {
  const Activity& activity = timed.activity;
  const ApiCall& call = calls_->Of(activity.is_driver, activity.call);
  Line& line = threads_[activity.thread];
  if (line.builder == nullptr) {
    const auto declare = [this, thread = activity.thread] {
      const std::string name = absl::StrCat(thread_names_->Of(thread), "/", thread);
      return xspace::LineKey{Host(), names_->EnsureLine(Host(), thread, name)};
    };
    line.builder = std::make_unique<xspace::SegmentBuilder>(sink_, kSourceCuda, declare);
  }
  stats_.Clear();
  uint64_t event_id = 0;
  if (launched != nullptr) {
    stats_.Uint64(HostStat("correlation_id"), activity.correlation);
    const auto plane = devices_.find(launched->device);
    // XProf takes it for an index into the file's GPU planes.
    if (plane != devices_.end() && plane->second.index >= 0) {
      stats_.Int64(HostStat("device_id"), plane->second.index);
    }
    if (launched->type == ActivityType::kKernel && call.launches) {
      if (launch_events_.size() <= launched->name) launch_events_.resize(launched->name + 1);
      uint64_t& known = launch_events_[launched->name];
      if (known == 0) known = names_->Event(Host(), kernels_->LaunchName(launched->name));
      event_id = known;
      stats_.Ref(HostStat("call"), HostStat(call.name));
    }
    TieTo(&host_stats_, Host(), step);
  }
  if (event_id == 0) {
    uint64_t& known = call_events_[&call];
    if (known == 0) known = names_->Event(Host(), call.name);
    event_id = known;
  }
  if (activity.result != 0) stats_.Int64(HostStat("error"), activity.result);
  Add(&line, &host_stats_, Host(), timed, event_id,
      activity.is_driver ? kDriverDepth : kRuntimeDepth);
}

void EventWriter::Memory(const TimedActivity& timed) {
  const Activity& activity = timed.activity;
  const bool allocation = activity.sub_kind == kMemoryAllocated;
  // A block from before the capture is known only by the record of its release.
  Block block = {static_cast<int64_t>(std::min<uint64_t>(activity.bytes, INT64_MAX)),
                 activity.source_memory};
  int64_t released = 0;
  if (allocation) {
    blocks_[{activity.device, activity.address}] = block;
  } else if (const auto found = blocks_.find({activity.device, activity.address});
             found != blocks_.end()) {
    block = found->second;
    released = block.bytes;
    blocks_.erase(found);
  }
  MemoryTotals& memory = memory_[{activity.device, block.kind}];
  // Sizes that cannot be true saturate.
  memory.allocated = std::max<int64_t>(memory.allocated - released, 0);
  if (allocation) memory.allocated += std::min(block.bytes, INT64_MAX - memory.allocated);
  memory.peak = std::max(memory.peak, memory.allocated);
  if (!window_->Intersects(timed.start_ticks, timed.end_ticks)) return;
  Line& line = others_["memory"];
  if (line.builder == nullptr) {
    line.builder = std::make_unique<xspace::SegmentBuilder>(sink_, kSourceCuda, [this] {
      return xspace::LineKey{Host(), names_->EnsureLine(Host(), kMemoryLine, "GPU memory")};
    });
  }
  const int64_t total =
      IsMemoryOfTheGpu(block.kind) ? static_cast<int64_t>(InfoOf(activity.device).memory_bytes) : 0;
  stats_.Clear();
  stats_.String(HostStat("allocator_name"), absl::StrCat("GPU:", activity.device, " ",
                                                         std::string(MemoryKindName(block.kind))));
  stats_.Int64(HostStat("bytes_allocated"), memory.allocated);
  stats_.Int64(HostStat("bytes_reserved"), 0);
  stats_.Int64(HostStat("bytes_available"), std::max<int64_t>(total - memory.allocated, 0));
  stats_.Int64(HostStat("peak_bytes_in_use"), memory.peak);
  stats_.Int64(HostStat("requested_bytes"), block.bytes);
  stats_.Int64(HostStat("allocation_bytes"), block.bytes);
  stats_.Int64(HostStat("addr"), static_cast<int64_t>(activity.address));
  Add(&line, &host_stats_, Host(), timed,
      names_->Event(Host(), allocation ? "MemoryAllocation" : "MemoryDeallocation"), 0);
}

void EventWriter::Other(const TimedActivity& timed) {
  const Activity& activity = timed.activity;
  std::string line_name;
  std::string_view event_name;
  switch (activity.type) {
    case ActivityType::kSync:
      event_name = SyncName(activity.sub_kind);
      line_name = activity.stream == UINT32_MAX ? absl::StrCat("waits, context ", activity.context)
                                                : absl::StrCat("waits, stream ", activity.stream);
      break;
    case ActivityType::kOverhead:
      event_name = OverheadName(activity.call);
      line_name = activity.thread == 0 ? "overhead" : absl::StrCat("overhead/", activity.thread);
      break;
    default:
      event_name = UnifiedMemoryName(activity.sub_kind);
      line_name = "unified memory";
  }
  Line& line = others_[line_name];
  if (line.builder == nullptr) {
    const auto declare = [this, id = static_cast<int64_t>(others_.size()), line_name] {
      return xspace::LineKey{Custom(), names_->Line(Custom(), id, line_name)};
    };
    line.builder = std::make_unique<xspace::SegmentBuilder>(sink_, kSourceCuda, declare);
  }
  stats_.Clear();
  const auto stat = [&](std::string_view name) { return Stat(&custom_stats_, Custom(), name); };
  if (activity.type == ActivityType::kSync) {
    stats_.Int64(stat("context_id"), activity.context);
  } else if (activity.type == ActivityType::kUnifiedMemory) {
    // For a CPU fault CUPTI gives the place in the program instead of a number.
    stats_.Uint64(stat(activity.sub_kind == kCpuPageFault ? "program_counter" : "value"),
                  activity.bytes);
    stats_.Uint64(stat("addr"), activity.address);
  }
  Add(&line, &custom_stats_, Custom(), timed, names_->Event(Custom(), event_name), 0);
}

void EventWriter::Flush() {
  for (auto& [ordinal, device] : devices_) {
    for (auto& [key, line] : device.lines) line.builder->Flush();
  }
  for (auto& [thread, line] : threads_) line.builder->Flush();
  for (auto& [name, line] : others_) line.builder->Flush();
}

uint64_t EventWriter::appended() const {
  uint64_t count = 0;
  for (const auto& [ordinal, device] : devices_) {
    for (const auto& [key, line] : device.lines) count += line.builder->appended_events();
  }
  for (const auto& [thread, line] : threads_) count += line.builder->appended_events();
  for (const auto& [name, line] : others_) {
    if (line.builder != nullptr) count += line.builder->appended_events();
  }
  return count;
}

uint64_t EventWriter::refused() const {
  uint64_t count = 0;
  for (const auto& [ordinal, device] : devices_) {
    for (const auto& [key, line] : device.lines) count += line.builder->refused_events();
  }
  for (const auto& [thread, line] : threads_) count += line.builder->refused_events();
  for (const auto& [name, line] : others_) {
    if (line.builder != nullptr) count += line.builder->refused_events();
  }
  return count;
}

}  // namespace jobscope::cuda
