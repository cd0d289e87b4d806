// SPDX-License-Identifier: Apache-2.0
//
// Writes activities as events of one plane.
#ifndef COLLECTORS_CUDA_EVENTS_PLANE_WRITER_H_
#define COLLECTORS_CUDA_EVENTS_PLANE_WRITER_H_

#include <cstdint>
#include <map>
#include <string_view>

#include "collectors/cuda/events/step_timeline.h"
#include "collectors/cuda/records/timed_activity.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"
#include "common/xspace/segment/stats.h"

namespace jobscope::cuda {

// A plane with the ids of its stats, and the stats of the event that is being written to it: Begin,
// then stats, then Add. Belongs to the collector's thread.
class PlaneWriter {
 public:
  // All pointers must outlive this object.
  PlaneWriter(xspace::Names* names, const Window* window) : names_(names), window_(window) {}
  PlaneWriter(const PlaneWriter&) = delete;
  PlaneWriter& operator=(const PlaneWriter&) = delete;

  // Declares the plane unless it is declared. Returns false if the store has no space; the next
  // call retries.
  bool Declare(std::string_view name, int64_t id);
  bool is_declared() const { return key_ != 0; }
  xspace::PlaneKey key() const { return key_; }  // 0: not declared

  uint64_t Event(std::string_view name) { return names_->Event(key_, name); }
  // `literal` must outlive this object.
  uint64_t Stat(std::string_view literal);

  // Begins an event.
  void Begin() { stats_.Clear(); }
  xspace::StatsEncoder& stats() { return stats_; }
  // Links the event to a training step; null: none.
  void TieTo(const StepSpan* step);
  // Clips the event to the window, adds the stats about that, and appends it to the line.
  void Add(xspace::SegmentBuilder* line, const TimedActivity& timed, uint64_t event_id,
           uint32_t depth);

 private:
  xspace::Names* const names_;
  const Window* const window_;
  xspace::PlaneKey key_ = 0;
  std::map<std::string_view, uint64_t> stat_ids_;  // keyed by literals
  xspace::StatsEncoder stats_{xspace::StatsOf::kEvent};
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_EVENTS_PLANE_WRITER_H_
