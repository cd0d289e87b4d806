// SPDX-License-Identifier: Apache-2.0
//
// Collects the events of one line, from one source, into segments: sorted, encoded, appended to the
// sink.
#ifndef COMMON_XSPACE_SEGMENT_H_
#define COMMON_XSPACE_SEGMENT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/xspace/item_sink.h"

namespace jobscope::xspace {

// One event. Times are picoseconds since the session's zero; a start below 0 is raised to 0 (the
// end stays), a duration below 1 is raised to 1 ps (a zero-length event wins whole intervals in
// XProf's breakdowns).
struct SegmentEvent {
  int64_t start_ps = 0;
  int64_t duration_ps = 0;
  uint64_t metadata_id = 0;  // from Names::Event
  uint32_t depth = 0;        // orders events of equal start and length: outer first
  std::string_view stats;    // encoded XEvent.stats fields (StatsEncoder), copied
};

// Not thread-safe: one source, one builder. Add costs no allocation once the buffers have grown.
class SegmentBuilder {
 public:
  // Closes at this many encoded bytes, or when events span this much time: items then number
  // thousands, not millions, and the newest events are never long in coming.
  static constexpr size_t kMaxBytes = 64 * 1024;
  static constexpr int64_t kMaxSpanPs = 250'000'000'000;

  SegmentBuilder(ItemSink* sink, PlaneKey plane, int64_t line, uint32_t source);

  // Takes the event; may close and append a segment.
  void Add(const SegmentEvent& event);
  // Closes the open segment, if it holds anything.
  void Flush();

  uint64_t appended_events() const { return appended_events_; }  // in items that the sink took
  uint64_t refused_events() const {
    return refused_events_;
  }  // in items that it refused: lost to a full store

 private:
  ItemSink* const sink_;
  const PlaneKey plane_;
  const int64_t line_;
  const uint32_t source_;
  uint64_t appended_events_ = 0;
  uint64_t refused_events_ = 0;
};

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_SEGMENT_H_
