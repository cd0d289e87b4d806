// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/events/plane_writer.h"

#include <algorithm>

#include "common/xspace/segment/trace_planes.h"

namespace jobscope::cuda {

bool PlaneWriter::Declare(std::string_view name, int64_t id) {
  if (key_ == 0) key_ = names_->Plane(name, id);
  return key_ != 0;
}

uint64_t PlaneWriter::Stat(std::string_view literal) {
  uint64_t& id = stat_ids_[literal];
  if (id == 0) id = names_->Stat(key_, literal);
  return id;
}

void PlaneWriter::TieTo(const StepSpan* step) {
  if (step == nullptr) return;
  stats_.Int64(Stat("_ct"), kStepContextType);
  stats_.Uint64(Stat("_c"), step->begin_ticks);
}

void PlaneWriter::Add(xspace::SegmentBuilder* line, const TimedActivity& timed, uint64_t event_id,
                      uint32_t depth) {
  const uint64_t from = std::max(timed.start_ticks, window_->start_ticks);
  const uint64_t to = std::min(timed.end_ticks, window_->end_ticks);
  if (from != timed.start_ticks || to != timed.end_ticks || timed.unfinished) {
    stats_.Int64(Stat("truncated"), 1);
    if (from != timed.start_ticks) {
      stats_.Int64(Stat("true_start_ns"), window_->map.ToPs(timed.start_ticks) / 1000);
    }
    if (to != timed.end_ticks && !timed.unfinished) {
      stats_.Int64(Stat("true_end_ns"), window_->map.ToPs(timed.end_ticks) / 1000);
    }
  }
  xspace::SegmentEvent event;
  event.start_ps = window_->map.ToPs(from);
  event.duration_ps = window_->map.ToPs(std::max(from, to)) - event.start_ps;
  event.metadata_id = event_id;
  event.depth = depth;
  event.stats = stats_.bytes();
  line->Add(event);
}

}  // namespace jobscope::cuda
