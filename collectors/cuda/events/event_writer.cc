// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/events/event_writer.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "collectors/cuda/events/activity_names.h"
#include "common/xspace/segment/trace_planes.h"

namespace jobscope::cuda {
namespace {

// Plane for everything that is not work of a GPU, and for GPUs whose kernels belong to no step.
constexpr std::string_view kCustomPlaneName = "/device:CUSTOM:CUDA";
constexpr int64_t kCustomPlaneId = 101;
constexpr int64_t kCustomDevicePlaneId = 200;  // + ordinal

// Not a thread id; the host plane's line of memory events.
constexpr int64_t kMemoryLine = (int64_t{1} << 40) + 2;

// Lines shared by what is beyond the bound.
constexpr uint32_t kOtherThreads = 0;  // no thread's id
constexpr std::string_view kOtherLine = "other waits and overhead";

// Deeper than the program's scopes, so that a call lies inside of the scope around it.
constexpr uint32_t kRuntimeDepth = 1000;
constexpr uint32_t kDriverDepth = 1001;

// Returns the line of that key; makes it if there is none. No line is ever incomplete: if memory
// runs out here, the others are still flushed.
template <typename Lines, typename Make>
xspace::SegmentBuilder* FindOrMake(Lines* lines, const typename Lines::key_type& key,
                                   const Make& make) {
  auto found = lines->find(key);
  if (found == lines->end()) found = lines->emplace(key, make()).first;
  return found->second.get();
}

}  // namespace

EventWriter::EventWriter(xspace::ItemSink* sink, xspace::Names* names, ApiCalls* calls,
                         const KernelNames* kernels, ThreadNames* threads, const Window* window)
    : sink_(sink),
      names_(names),
      calls_(calls),
      kernels_(kernels),
      thread_names_(threads),
      window_(window),
      host_(names, window),
      custom_(names, window) {}

PlaneWriter& EventWriter::Host() {
  (void)host_.Declare(kHostPlaneName, kHostPlaneId);
  return host_;
}

PlaneWriter& EventWriter::Custom() {
  (void)custom_.Declare(kCustomPlaneName, kCustomPlaneId);
  return custom_;
}

EventWriter::Gpu& EventWriter::GpuOf(uint32_t device) {
  const auto found = gpus_.find(device);
  if (found != gpus_.end()) return found->second;
  return gpus_.try_emplace(device, QueryDevice(static_cast<int>(device)).value_or(DeviceInfo()))
      .first->second;
}

bool EventWriter::has_device_planes() const {
  return std::any_of(gpus_.begin(), gpus_.end(), [](const auto& gpu) {
    return gpu.second.plane != nullptr && gpu.second.plane->is_declared();
  });
}

void EventWriter::Device(const TimedActivity& timed, const StepSpan* step) {
  const uint32_t device = timed.activity.device;
  Gpu& gpu = GpuOf(device);
  if (gpu.plane == nullptr) {
    gpu.plane = std::make_unique<GpuPlane>(sink_, names_, kernels_, window_, &gpu.info);
  }
  if (!gpu.plane->is_declared()) {
    const bool declared =
        custom_planes_ ? gpu.plane->Declare(absl::StrCat("/device:CUSTOM:GPU:", device),
                                            kCustomDevicePlaneId + static_cast<int64_t>(device))
                       : gpu.plane->Declare(absl::StrCat("/device:GPU:", device),
                                            static_cast<int64_t>(device));
    // At once: if memory ran out in between, the planes that follow would have wrong numbers.
    if (declared && !custom_planes_) gpu.index = next_index_++;
    if (declared) gpu.plane->WriteCapabilities();
  }
  gpu.plane->Write(timed, step);
}

void EventWriter::WriteOrder(uint32_t device, const LaunchOrder& order) {
  const auto found = gpus_.find(device);
  if (found == gpus_.end() || found->second.plane == nullptr) return;
  found->second.plane->WriteOrder(order);
}

void EventWriter::Api(const TimedActivity& timed, const Launched* launched, const StepSpan* step) {
  const Activity& activity = timed.activity;
  const ApiCall& call = calls_->Of(activity.is_driver, activity.call);
  uint32_t thread = activity.thread;
  if (threads_.size() >= kMaxLines && threads_.count(thread) == 0) thread = kOtherThreads;
  xspace::SegmentBuilder* const line = FindOrMake(&threads_, thread, [&] {
    const auto declare = [this, thread] {
      const bool other = thread == kOtherThreads;
      const std::string name = other ? std::string(kOtherThreadsLineName)
                                     : absl::StrCat(thread_names_->Of(thread), "/", thread);
      const xspace::PlaneKey plane = Host().key();
      return xspace::LineKey{
          plane, names_->EnsureLine(plane, other ? kOtherThreadsLine : int64_t{thread}, name)};
    };
    return std::make_unique<xspace::SegmentBuilder>(sink_, kSourceCuda, declare);
  });
  PlaneWriter& host = Host();
  host.Begin();
  uint64_t event_id = 0;
  if (launched != nullptr) {
    host.stats().Uint64(host.Stat("correlation_id"), activity.correlation);
    const auto gpu = gpus_.find(launched->device);
    // XProf takes it for an index into the file's GPU planes.
    if (gpu != gpus_.end() && gpu->second.index >= 0) {
      host.stats().Int64(host.Stat("device_id"), gpu->second.index);
    }
    if (launched->type == ActivityType::kKernel && call.launches) {
      if (launch_events_.size() <= launched->name) launch_events_.resize(launched->name + 1);
      uint64_t& known = launch_events_[launched->name];
      if (known == 0) known = host.Event(kernels_->LaunchName(launched->name));
      event_id = known;
      host.stats().Ref(host.Stat("call"), host.Stat(call.name));
    }
    host.TieTo(step);
  }
  if (event_id == 0) {
    uint64_t& known = call_events_[&call];
    if (known == 0) known = host.Event(call.name);
    event_id = known;
  }
  if (activity.result != 0) host.stats().Int64(host.Stat("error"), activity.result);
  host.Add(line, timed, event_id, activity.is_driver ? kDriverDepth : kRuntimeDepth);
}

void EventWriter::Memory(const TimedActivity& timed) {
  const Activity& activity = timed.activity;
  const MemoryTotals::Change change = memory_.Apply(activity);
  if (!window_->Intersects(timed.start_ticks, timed.end_ticks)) return;
  xspace::SegmentBuilder* const line = FindOrMake(&others_, "memory", [this] {
    return std::make_unique<xspace::SegmentBuilder>(sink_, kSourceCuda, [this] {
      const xspace::PlaneKey plane = Host().key();
      return xspace::LineKey{plane, names_->EnsureLine(plane, kMemoryLine, "GPU memory")};
    });
  });
  const int64_t total = IsMemoryOfTheGpu(change.kind)
                            ? static_cast<int64_t>(GpuOf(activity.device).info.memory_bytes)
                            : 0;
  PlaneWriter& host = Host();
  host.Begin();
  xspace::StatsEncoder& stats = host.stats();
  stats.String(host.Stat("allocator_name"), absl::StrCat("GPU:", activity.device, " ",
                                                         std::string(MemoryKindName(change.kind))));
  stats.Int64(host.Stat("bytes_allocated"), change.allocated);
  stats.Int64(host.Stat("bytes_reserved"), 0);
  stats.Int64(host.Stat("bytes_available"), std::max<int64_t>(total - change.allocated, 0));
  stats.Int64(host.Stat("peak_bytes_in_use"), change.peak);
  stats.Int64(host.Stat("requested_bytes"), change.bytes);
  stats.Int64(host.Stat("allocation_bytes"), change.bytes);
  stats.Int64(host.Stat("addr"), static_cast<int64_t>(activity.address));
  const bool allocation = activity.sub_kind == kMemoryAllocated;
  host.Add(line, timed, host.Event(allocation ? "MemoryAllocation" : "MemoryDeallocation"), 0);
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
  if (others_.size() >= kMaxLines && others_.count(line_name) == 0) line_name = kOtherLine;
  xspace::SegmentBuilder* const line = FindOrMake(&others_, line_name, [&] {
    const auto declare = [this, id = static_cast<int64_t>(others_.size()) + 1, line_name] {
      const xspace::PlaneKey plane = Custom().key();
      return xspace::LineKey{plane, names_->Line(plane, id, line_name)};
    };
    return std::make_unique<xspace::SegmentBuilder>(sink_, kSourceCuda, declare);
  });
  PlaneWriter& custom = Custom();
  custom.Begin();
  if (activity.type == ActivityType::kSync) {
    custom.stats().Int64(custom.Stat("context_id"), activity.context);
  } else if (activity.type == ActivityType::kUnifiedMemory) {
    // For a CPU fault CUPTI gives the place in the program instead of a number.
    custom.stats().Uint64(
        custom.Stat(activity.sub_kind == kCpuPageFault ? "program_counter" : "value"),
        activity.bytes);
    custom.stats().Uint64(custom.Stat("addr"), activity.address);
  }
  custom.Add(line, timed, custom.Event(event_name), 0);
}

void EventWriter::Flush() {
  for (auto& [ordinal, gpu] : gpus_) {
    if (gpu.plane != nullptr) gpu.plane->Flush();
  }
  for (auto& [thread, line] : threads_) line->Flush();
  for (auto& [name, line] : others_) line->Flush();
}

uint64_t EventWriter::appended() const {
  uint64_t count = 0;
  for (const auto& [ordinal, gpu] : gpus_) {
    count += gpu.plane == nullptr ? 0 : gpu.plane->appended();
  }
  for (const auto& [thread, line] : threads_) count += line->appended_events();
  for (const auto& [name, line] : others_) count += line->appended_events();
  return count;
}

uint64_t EventWriter::refused() const {
  uint64_t count = 0;
  for (const auto& [ordinal, gpu] : gpus_) count += gpu.plane == nullptr ? 0 : gpu.plane->refused();
  for (const auto& [thread, line] : threads_) count += line->refused_events();
  for (const auto& [name, line] : others_) count += line->refused_events();
  return count;
}

}  // namespace jobscope::cuda
