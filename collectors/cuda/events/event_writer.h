// SPDX-License-Identifier: Apache-2.0
//
// Encodes CUDA activities as XPlane events.
#ifndef COLLECTORS_CUDA_EVENTS_EVENT_WRITER_H_
#define COLLECTORS_CUDA_EVENTS_EVENT_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectors/cuda/events/gpu_plane.h"
#include "collectors/cuda/events/memory_totals.h"
#include "collectors/cuda/events/plane_writer.h"
#include "collectors/cuda/events/step_timeline.h"
#include "collectors/cuda/libraries/driver_api.h"
#include "collectors/cuda/records/api_calls.h"
#include "collectors/cuda/records/kernel_names.h"
#include "collectors/cuda/records/thread_names.h"
#include "collectors/cuda/records/timed_activity.h"
#include "common/xspace/segment/item_sink.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"

namespace jobscope::cuda {

// Encodes activities as XPlane events:
//
//   /device:GPU:<n>       one line per stream (and further lanes where nodes of a graph overlap):
//                         kernels, copies, memsets
//   /host:CPU             CUDA calls on the lines of their threads, memory events on their own line
//   /device:CUSTOM:CUDA   waits, CUPTI's overhead, unified memory: what XProf would mistake for
//                         GPU work
//
// Events must be sorted by their start, but for those that were reported late. Belongs to the
// collector's thread.
class EventWriter {
 public:
  // Bounds the lines of threads, and those of waits and overhead, of a few KiB each. The events of
  // further ones share one line.
  static constexpr size_t kMaxLines = 4096;

  // All pointers must outlive the writer. `window` may change between calls, its zero only before
  // the first.
  EventWriter(xspace::ItemSink* sink, xspace::Names* names, ApiCalls* calls,
              const KernelNames* kernels, ThreadNames* threads, const Window* window);
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // Makes GPUs whose first event follows use a custom plane, which XProf does not analyse.
  void UseCustomPlanes() { custom_planes_ = true; }
  bool has_device_planes() const;

  // Writes GPU work. `step`: the training step to link to; null: none.
  void Device(const TimedActivity& timed, const StepSpan* step);
  // Writes a CUDA call. `launched`: the work it launched; null: unknown.
  void Api(const TimedActivity& timed, const Launched* launched, const StepSpan* step);
  void Memory(const TimedActivity& timed);
  void Other(const TimedActivity& timed);
  void WriteOrder(uint32_t device, const LaunchOrder& order);
  // Appends open segments.
  void Flush();

  uint64_t appended() const;
  uint64_t refused() const;
  // Number of allocations that the totals of memory leave out.
  uint64_t allocations_left_out() const { return memory_.left_out(); }

 private:
  using Line = std::unique_ptr<xspace::SegmentBuilder>;
  struct Gpu {
    explicit Gpu(const DeviceInfo& info) : info(info) {}
    const DeviceInfo info;
    std::unique_ptr<GpuPlane> plane;  // null: no work was written
    int64_t index = -1;               // among the declared GPU planes; -1: none of them
  };

  Gpu& GpuOf(uint32_t device);
  // Each declares the plane if it is not, and the store has space.
  PlaneWriter& Host();
  PlaneWriter& Custom();

  xspace::ItemSink* const sink_;
  xspace::Names* const names_;
  ApiCalls* const calls_;
  const KernelNames* const kernels_;
  ThreadNames* const thread_names_;
  const Window* const window_;
  bool custom_planes_ = false;

  PlaneWriter host_;
  PlaneWriter custom_;
  std::map<uint32_t, Gpu> gpus_;
  int64_t next_index_ = 0;
  std::map<uint32_t, Line> threads_;  // 0: those without a line of their own
  std::map<std::string, Line> others_;
  MemoryTotals memory_;
  // Events of the host plane.
  std::map<const ApiCall*, uint64_t> call_events_;
  std::vector<uint64_t> launch_events_;  // by kernel name
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_EVENTS_EVENT_WRITER_H_
