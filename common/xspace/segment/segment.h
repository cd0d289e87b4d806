// SPDX-License-Identifier: Apache-2.0
//
// Collects the events of one line, from one source, into segments: sorted, encoded, appended to the
// sink.
#ifndef COMMON_XSPACE_SEGMENT_SEGMENT_H_
#define COMMON_XSPACE_SEGMENT_SEGMENT_H_

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "common/xspace/segment/item_sink.h"

namespace jobscope::xspace {

// Describes one event. Times are picoseconds since the session's zero. A start below 0 is raised to
// 0 (the end stays), a duration below 1 to 1 ps (a zero-length event takes whole intervals in
// XProf's breakdowns).
struct SegmentEvent {
  int64_t start_ps = 0;
  int64_t duration_ps = 0;
  uint64_t metadata_id = 0;  // from Names::Event
  uint32_t depth = 0;        // orders events of equal start and length: outer first
  std::string_view stats;    // encoded XEvent.stats fields (StatsEncoder), copied
};

// Identifies a line. 0: the store had no space for its declaration.
struct LineKey {
  PlaneKey plane = 0;
  int64_t line = 0;
};

// Declares a line under its present name, by Names::Line or Names::EnsureLine.
using LineDeclaration = std::function<LineKey()>;

// Encodes the events of one source and line as segments and appends them to a sink. Not
// thread-safe: one builder per source. Add allocates nothing once the buffers have grown: to about
// 350 KiB for a line that fills its segments, none for a line without events.
class SegmentBuilder {
 public:
  // A segment is closed at this many encoded bytes, or when the ends of its events span this much
  // time: items then number thousands, not millions, and recent events are soon available. A single
  // larger event has a segment of its own.
  static constexpr size_t kMaxBytes = 64 * 1024;
  static constexpr int64_t kMaxSpanPs = 250'000'000'000;

  // `sink` must outlive the builder. Add calls `declare` until the store has space for the line:
  // until then events are refused, because readers reject a trace with events of an unknown line.
  SegmentBuilder(ItemSink* sink, uint32_t source, LineDeclaration declare);
  // For a line that is declared already, or never: if `line` is 0, all events are refused.
  SegmentBuilder(ItemSink* sink, PlaneKey plane, int64_t line, uint32_t source);
  SegmentBuilder(SegmentBuilder&&) = default;

  // Declares the line now: for one that has another name than before.
  void Declare();
  // Returns whether the line is declared; tries to declare it otherwise.
  bool IsDeclared() {
    if (key_.line == 0) Declare();
    return key_.line != 0;
  }

  // Adds the event; may declare the line, and close and append a segment. An event without a line
  // or a metadata id counts as refused: Names found the store full.
  void Add(const SegmentEvent& event);
  // Closes the open segment unless it is empty.
  void Flush();

  uint64_t appended_events() const { return appended_events_; }  // in items accepted by the sink
  uint64_t refused_events() const {
    return refused_events_;
  }  // in refused items: lost to a full store

 private:
  struct Record {
    int64_t start_ps;
    int64_t duration_ps;
    uint32_t depth;
    uint32_t offset;  // in encoded_
    uint32_t bytes;
  };
  static bool Precedes(const Record& a, const Record& b);
  // Puts the newest record, records_[index], at its place in order_.
  void Sort(uint32_t index);
  // Returns the events in sorted order.
  char* SortedEvents();

  ItemSink* const sink_;
  const uint32_t source_;
  LineDeclaration declare_;  // null: declared by the caller
  LineKey key_;
  uint64_t appended_events_ = 0;
  uint64_t refused_events_ = 0;

  // State of the open segment.
  std::vector<Record> records_;  // in order of arrival
  std::vector<uint32_t> order_;  // sorted indices of records_
  bool in_order_ = true;         // whether records_ is sorted already
  size_t event_bytes_ = 0;       // encoded size of all records
  int64_t min_end_ps_ = 0;
  int64_t max_end_ps_ = 0;
  // Space for a header, then the encoded events in order of arrival, or sorted. Reused; never
  // shrink.
  std::vector<char> encoded_;
  std::vector<char> sorted_;
};

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_SEGMENT_SEGMENT_H_
