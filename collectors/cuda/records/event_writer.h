// SPDX-License-Identifier: Apache-2.0
//
// Encodes CUDA activities as XPlane events.
#ifndef COLLECTORS_CUDA_RECORDS_EVENT_WRITER_H_
#define COLLECTORS_CUDA_RECORDS_EVENT_WRITER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectors/cuda/libraries/driver_api.h"
#include "collectors/cuda/records/api_calls.h"
#include "collectors/cuda/records/busy_times.h"
#include "collectors/cuda/records/kernel_names.h"
#include "collectors/cuda/records/record.h"
#include "collectors/cuda/records/step_timeline.h"
#include "collectors/cuda/records/thread_names.h"
#include "collectors/cuda/records/timed_activity.h"
#include "common/containers/hash_table.h"
#include "common/xspace/segment/item_sink.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"
#include "common/xspace/segment/stats.h"

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
  // Compares launch and work times of one GPU: the proof that the two clocks agree, written as
  // stats of each GPU plane, together with why some launches have no kernel.
  struct Order {
    uint64_t launches = 0;
    uint64_t early = 0;
    uint64_t after = 0;  // launched in the window, but began after it: outside
  };
  void WriteOrder(uint32_t device, const Order& order);
  // Appends open segments.
  void Flush();

  uint64_t appended() const;
  uint64_t refused() const;

 private:
  struct Line {
    std::unique_ptr<xspace::SegmentBuilder> builder;
  };
  struct Lane : Line {
    uint32_t contents = 0;
    BusyTimes busy;
  };
  struct DevicePlane {
    xspace::PlaneKey plane = 0;
    int64_t index = -1;                                   // among the GPU planes; -1: none of them
    std::map<std::string_view, uint64_t> stats;           // keyed by literals
    std::vector<uint64_t> kernel_events;                  // by kernel name
    std::map<std::pair<uint32_t, uint32_t>, Lane> lines;  // by stream and lane
    HashMap<std::string, uint64_t> details;               // texts of launches, as names
  };
  // Memory of one kind on one GPU. Pinned host memory is such a kind.
  struct MemoryTotals {
    int64_t allocated = 0;
    int64_t peak = 0;
  };
  struct Block {
    int64_t bytes = 0;
    uint8_t kind = 0;
  };

  const DeviceInfo& InfoOf(uint32_t device);
  DevicePlane& PlaneOf(uint32_t device);
  void WriteCapabilities(xspace::PlaneKey plane, const DeviceInfo& info);
  Line& LineOf(DevicePlane* plane, const TimedActivity& timed, uint32_t contents);
  void KernelStats(DevicePlane* plane, const Activity& kernel);
  void TieTo(std::map<std::string_view, uint64_t>* ids, xspace::PlaneKey plane,
             const StepSpan* step);
  uint64_t Stat(std::map<std::string_view, uint64_t>* ids, xspace::PlaneKey plane,
                std::string_view literal);
  uint64_t HostStat(std::string_view literal) { return Stat(&host_stats_, Host(), literal); }
  xspace::PlaneKey Host();
  xspace::PlaneKey Custom();
  // Clips to the window, adds the clipping stats and the event.
  void Add(Line* line, std::map<std::string_view, uint64_t>* ids, xspace::PlaneKey plane,
           const TimedActivity& timed, uint64_t event_id, uint32_t depth);

  xspace::ItemSink* const sink_;
  xspace::Names* const names_;
  ApiCalls* const calls_;
  const KernelNames* const kernels_;
  ThreadNames* const thread_names_;
  const Window* const window_;
  bool custom_planes_ = false;

  std::map<uint32_t, DeviceInfo> infos_;
  std::map<uint32_t, DevicePlane> devices_;
  int64_t next_index_ = 0;
  xspace::PlaneKey host_ = 0;
  xspace::PlaneKey custom_ = 0;
  std::map<std::string_view, uint64_t> host_stats_;
  std::map<std::string_view, uint64_t> custom_stats_;
  std::map<uint32_t, Line> threads_;
  std::map<std::string, Line> others_;
  std::map<const ApiCall*, uint64_t> call_events_;               // on the host plane
  std::map<std::pair<uint32_t, uint8_t>, MemoryTotals> memory_;  // by GPU and kind
  HashMap<std::pair<uint32_t, uint64_t>, Block> blocks_;         // by GPU and address
  std::vector<uint64_t> launch_events_;  // by kernel name, on the host plane
  xspace::StatsEncoder stats_{xspace::StatsOf::kEvent};
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_RECORDS_EVENT_WRITER_H_
