// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/events/gpu_plane.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "collectors/cuda/events/activity_names.h"
#include "collectors/cuda/events/occupancy.h"
#include "common/xspace/segment/stats.h"
#include "common/xspace/segment/trace_planes.h"

namespace jobscope::cuda {
namespace {

// Lane bits of a line id: XProf's timeline uses 32-bit line ids, and stream numbers are small.
constexpr uint32_t kLaneShift = 24;
constexpr uint32_t kMaxLanes = 16;
// Stands for the streams without a line of their own; the last number below the lane bits.
constexpr uint32_t kOtherStreams = (1u << kLaneShift) - 1;

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
  std::string name = stream == kOtherStreams ? "other streams" : absl::StrCat("Stream #", stream);
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

GpuPlane::GpuPlane(xspace::ItemSink* sink, xspace::Names* names, const KernelNames* kernels,
                   const Window* window, const DeviceInfo* info)
    : sink_(sink), names_(names), kernels_(kernels), info_(*info), plane_(names, window) {}

void GpuPlane::WriteCapabilities() {
  xspace::StatsEncoder stats(xspace::StatsOf::kPlane);
  const auto id = [&](std::string_view name) { return names_->Stat(plane_.key(), name); };
  stats.String(id("device_vendor"), "Nvidia");
  if (!info_.name.empty()) stats.String(id("gpu_device_name"), info_.name);
  const auto number = [&](std::string_view name, int64_t value) {
    if (value > 0) stats.Int64(id(name), value);
  };
  number("clock_rate", info_.core_clock_khz);
  number("core_count", info_.multiprocessors);
  number("memory_size", static_cast<int64_t>(info_.memory_bytes));
  // The bus makes two transfers per clock.
  number("memory_bandwidth", int64_t{2000} * info_.memory_clock_khz * info_.memory_bus_bits / 8);
  if (info_.compute_major > 0) {
    stats.Int64(id("compute_cap_major"), info_.compute_major);
    stats.Int64(id("compute_cap_minor"), info_.compute_minor);
  }
  (void)names_->AddPlaneStats(plane_.key(), stats.bytes());
}

void GpuPlane::WriteOrder(const LaunchOrder& order) {
  xspace::StatsEncoder stats(xspace::StatsOf::kPlane);
  const auto id = [&](std::string_view name) { return names_->Stat(plane_.key(), name); };
  stats.Uint64(id("launches_checked"), order.launches);
  stats.Uint64(id("started_before_launch"), order.early);
  stats.Uint64(id("launched_but_started_after_the_window"), order.after);
  (void)names_->AddPlaneStats(plane_.key(), stats.bytes());
}

// No lane is ever incomplete: if memory runs out here, the others are still flushed.
GpuPlane::Lane* GpuPlane::LaneAt(uint32_t stream, uint32_t number) {
  auto found = lanes_.find({stream, number});
  if (found == lanes_.end()) {
    auto made = std::make_unique<Lane>();
    const auto declare = [this, lane = made.get(), stream, number] {
      const int64_t id = int64_t{stream} + (int64_t{number} << kLaneShift);
      const std::string name = StreamName(stream, number, lane->contents);
      return xspace::LineKey{plane_.key(), names_->Line(plane_.key(), id, name)};
    };
    made->builder = std::make_unique<xspace::SegmentBuilder>(sink_, kSourceCuda, declare);
    found = lanes_.emplace(std::make_pair(stream, number), std::move(made)).first;
  }
  return found->second.get();
}

GpuPlane::Lane* GpuPlane::LaneOf(const TimedActivity& timed, uint32_t contents) {
  uint32_t stream = timed.activity.stream;
  // Nodes of a graph run in parallel and all carry the stream into which the graph was launched.
  uint32_t number = 0;
  Lane* lane = nullptr;
  for (;; ++number) {
    if (lanes_.size() >= kMaxLines && stream != kOtherStreams &&
        lanes_.count({stream, number}) == 0) {
      stream = kOtherStreams;
      number = 0;
    }
    lane = LaneAt(stream, number);
    if (lane->busy.Add(timed.start_ticks, timed.end_ticks) || number + 1 == kMaxLanes) break;
  }
  if ((lane->contents & contents) == contents) return lane;
  const bool has_name = lane->contents != 0;
  lane->contents |= contents;
  if (has_name) lane->builder->Declare();  // under its new name
  return lane;
}

void GpuPlane::KernelStats(const Activity& kernel) {
  // Does not use absl::StrFormat, which ends the program if memory runs out.
  std::string details =
      absl::StrCat("regs:", kernel.registers, " static_shared:", kernel.static_shared_bytes,
                   " dynamic_shared:", kernel.dynamic_shared_bytes, " grid:", kernel.grid[0], ",",
                   kernel.grid[1], ",", kernel.grid[2], " block:", kernel.block[0], ",",
                   kernel.block[1], ",", kernel.block[2]);
  if (kernel.cluster[0] > 1 || kernel.cluster[1] > 1 || kernel.cluster[2] > 1) {
    absl::StrAppend(&details, " cluster:", kernel.cluster[0], ",", kernel.cluster[1], ",",
                    kernel.cluster[2]);
  }
  if (kernel.local_bytes_per_thread != 0) {
    absl::StrAppend(&details, " local:", kernel.local_bytes_per_thread);
  }
  const std::optional<double> occupancy = OccupancyPercent(kernel, info_);
  // Nor snprintf, which writes the decimal point of the program's locale.
  if (occupancy.has_value()) absl::StrAppend(&details, " occ_pct:", *occupancy);
  const uint64_t id = plane_.Stat("kernel_details");
  const auto known = details_.find(details);
  if (known != details_.end()) {
    plane_.stats().Ref(id, known->second);
  } else if (const uint64_t text =
                 details_.size() < kMaxDetails ? names_->Stat(plane_.key(), details) : 0;
             text != 0) {
    plane_.stats().Ref(id, text);
    details_.emplace(std::move(details), text);
  } else {
    plane_.stats().String(id, details);
  }
  if (occupancy.has_value()) {
    plane_.stats().Double(plane_.Stat("theoretical_occupancy_pct"), *occupancy);
  }
}

void GpuPlane::Write(const TimedActivity& timed, const StepSpan* step) {
  const Activity& activity = timed.activity;
  Lane* const lane = LaneOf(timed, ContentsOf(activity));
  const auto stat = [&](std::string_view name) { return plane_.Stat(name); };
  plane_.Begin();
  xspace::StatsEncoder& stats = plane_.stats();
  stats.Uint64(stat("correlation_id"), activity.correlation);
  stats.Int64(stat("device_id"), activity.device);
  stats.Int64(stat("context_id"), activity.context);
  uint64_t event_id = 0;
  switch (activity.type) {
    case ActivityType::kKernel:
      if (kernel_events_.size() <= timed.name) kernel_events_.resize(timed.name + 1);
      if (kernel_events_[timed.name] == 0) {
        kernel_events_[timed.name] = plane_.Event(kernels_->Name(timed.name));
      }
      event_id = kernel_events_[timed.name];
      KernelStats(activity);
      break;
    case ActivityType::kCopy:
      event_id = plane_.Event(CopyName(activity.sub_kind));
      stats.String(stat("memcpy_details"), CopyDetails(activity));
      break;
    default:
      event_id = plane_.Event("Memset");
      stats.String(stat("memset_details"), SetDetails(activity));
  }
  if (activity.graph != 0) stats.Uint64(stat("cuda_graph_id"), activity.graph);
  if (activity.graph_node != 0) stats.Uint64(stat("cuda_graph_node_id"), activity.graph_node);
  plane_.TieTo(step);
  plane_.Add(lane->builder.get(), timed, event_id, 0);
}

void GpuPlane::Flush() {
  for (auto& [key, lane] : lanes_) lane->builder->Flush();
}

uint64_t GpuPlane::appended() const {
  uint64_t count = 0;
  for (const auto& [key, lane] : lanes_) count += lane->builder->appended_events();
  return count;
}

uint64_t GpuPlane::refused() const {
  uint64_t count = 0;
  for (const auto& [key, lane] : lanes_) count += lane->builder->refused_events();
  return count;
}

}  // namespace jobscope::cuda
