// SPDX-License-Identifier: Apache-2.0
//
// Writes the work of one GPU to its plane.
#ifndef COLLECTORS_CUDA_EVENTS_GPU_PLANE_H_
#define COLLECTORS_CUDA_EVENTS_GPU_PLANE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectors/cuda/events/busy_times.h"
#include "collectors/cuda/events/plane_writer.h"
#include "collectors/cuda/events/step_timeline.h"
#include "collectors/cuda/libraries/driver_api.h"
#include "collectors/cuda/records/kernel_names.h"
#include "collectors/cuda/records/timed_activity.h"
#include "common/containers/hash_table.h"
#include "common/xspace/segment/item_sink.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"

namespace jobscope::cuda {

// Compares launch and work times of one GPU: the proof that the two clocks agree, written as stats
// of each GPU plane, together with why some launches have no kernel.
struct LaunchOrder {
  uint64_t launches = 0;
  uint64_t early = 0;
  uint64_t after = 0;  // launched in the window, but began after it: outside
};

// Encodes kernels, copies and memsets as events of one line per stream, and further lanes where
// nodes of a graph overlap. Belongs to the collector's thread.
class GpuPlane {
 public:
  // Bounds the lines, of a few KiB each, and up to 600 KiB for a stream that is always busy: a
  // program may create a stream in each step. Work of further streams shares the lines of "other
  // streams".
  static constexpr size_t kMaxLines = 1024;

  // All pointers must outlive this object.
  GpuPlane(xspace::ItemSink* sink, xspace::Names* names, const KernelNames* kernels,
           const Window* window, const DeviceInfo* info);
  GpuPlane(const GpuPlane&) = delete;
  GpuPlane& operator=(const GpuPlane&) = delete;

  // Declares the plane unless it is declared. Returns false if the store has no space.
  bool Declare(std::string_view name, int64_t id) { return plane_.Declare(name, id); }
  // Writes what the GPU can do. Call it once, after Declare.
  void WriteCapabilities();
  bool is_declared() const { return plane_.is_declared(); }

  // Writes work. `step`: the training step to link to; null: none. Counts it as refused if the
  // plane is not declared.
  void Write(const TimedActivity& timed, const StepSpan* step);
  void WriteOrder(const LaunchOrder& order);
  // Appends open segments.
  void Flush();

  uint64_t appended() const;
  uint64_t refused() const;

 private:
  struct Lane {
    std::unique_ptr<xspace::SegmentBuilder> builder;
    uint32_t contents = 0;
    BusyTimes busy;
  };

  Lane* LaneAt(uint32_t stream, uint32_t number);
  Lane* LaneOf(const TimedActivity& timed, uint32_t contents);
  void KernelStats(const Activity& kernel);

  xspace::ItemSink* const sink_;
  xspace::Names* const names_;
  const KernelNames* const kernels_;
  const DeviceInfo& info_;
  PlaneWriter plane_;
  std::vector<uint64_t> kernel_events_;                                   // by kernel name
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<Lane>> lanes_;  // by stream and number
  HashMap<std::string, uint64_t> details_;  // texts of launches, as names
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_EVENTS_GPU_PLANE_H_
