// SPDX-License-Identifier: Apache-2.0
//
// Reads the events of a segment: for the index, for cuts and for merges, so a few times per event
// of a trace.
#ifndef COMMON_XSPACE_EVENT_READER_H_
#define COMMON_XSPACE_EVENT_READER_H_

#include <cstdint>
#include <string_view>

#include "common/xspace/fields.h"
#include "common/xspace/wire.h"

namespace jobscope::xspace {

// One XLine.events field as segments hold them: metadata id, offset, duration, in this order and
// each present, then nothing but stats.
struct EventView {
  uint64_t metadata_id = 0;
  int64_t start_ps = 0;
  int64_t duration_ps = 0;
  std::string_view stats;  // XEvent.stats fields
};

// Reads the event at `in`; returns the byte behind it, or null when it is not as described or
// leaves [in, end). Does not look into the stats.
const char* ReadEventSlow(const char* in, const char* end, EventView* event);

inline const char* ReadEvent(const char* in, const char* end, EventView* event) {
  // Two bytes of header, three tags, three varints of at most eight bytes: all loads below stay
  // before in + 32.
  constexpr int64_t kReach = 32;
  if (end - in < kReach || in[0] != BytesTag(xline_field::kEvents) ||
      static_cast<uint8_t>(in[1]) >= 0x80 || in[2] != VarintTag(xevent_field::kMetadataId)) {
    return ReadEventSlow(in, end, event);
  }
  const char* const behind = in + 2 + in[1];
  uint64_t id;
  uint64_t start;
  uint64_t duration;
  const char* at = ReadShortVarint(in + 3, &id);
  if (at == nullptr || *at != VarintTag(xevent_field::kOffsetPs)) {
    return ReadEventSlow(in, end, event);
  }
  at = ReadShortVarint(at + 1, &start);
  if (at == nullptr || *at != VarintTag(xevent_field::kDurationPs)) {
    return ReadEventSlow(in, end, event);
  }
  at = ReadShortVarint(at + 1, &duration);
  if (at == nullptr || at > behind || behind > end) return ReadEventSlow(in, end, event);
  event->metadata_id = id;
  event->start_ps = static_cast<int64_t>(start);
  event->duration_ps = static_cast<int64_t>(duration);
  event->stats = std::string_view(at, static_cast<size_t>(behind - at));
  return behind;
}

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_EVENT_READER_H_
