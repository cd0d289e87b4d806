// SPDX-License-Identifier: Apache-2.0
//
// Reads the events of a segment, for the index, cuts and merges: a few times per event of a trace.
#ifndef COMMON_XSPACE_SEGMENT_EVENT_READER_H_
#define COMMON_XSPACE_SEGMENT_EVENT_READER_H_

#include <cstdint>
#include <string_view>

#include "common/xspace/wire/fields.h"
#include "common/xspace/wire/wire.h"

namespace jobscope::xspace {

// Bounds starts and ends of events: 2^56 ps, 20 hours after the session's zero.
constexpr int64_t kMaxEventPs = static_cast<int64_t>(kSpreadLimit);

// Sorts as the events of a line do: by start, then longest first. Both values are spread varints,
// which sort like numbers: most events are only compared, and decoding the varint would take
// longer.
struct EventKey {
  Spread start = 0;
  Spread duration = 0;
  friend bool operator<(const EventKey& a, const EventKey& b) {
    return a.start != b.start ? a.start < b.start : a.duration > b.duration;
  }
};

// Views one XLine.events field as segments hold them: metadata id, offset and duration, all present
// in this order, then only stats.
struct EventView {
  Spread metadata_id = 0;
  EventKey key;
  std::string_view stats;  // XEvent.stats fields
};

// Reads the event at `in`. Returns the byte after it, or null if it has another form or exceeds
// [in, end). Does not parse the stats.
const char* ReadEventSlow(const char* in, const char* end, EventView* event);

// Does the same for an event of the usual form that does not lie at the end of its segment; returns
// null for any other.
inline const char* ReadUsualEvent(const char* in, const char* end, EventView* event) {
  // Two bytes of header, three tags, three varints of at most eight bytes: all loads below stay
  // before in + 32.
  constexpr int64_t kReach = 32;
  if (end - in < kReach || in[0] != BytesTag(xline_field::kEvents) ||
      static_cast<uint8_t>(in[1]) >= 0x80 || in[2] != VarintTag(xevent_field::kMetadataId)) {
    return nullptr;
  }
  const char* const behind = in + 2 + in[1];
  const char* at = ReadSpread(in + 3, &event->metadata_id);
  if (at == nullptr || *at != VarintTag(xevent_field::kOffsetPs)) return nullptr;
  at = ReadSpread(at + 1, &event->key.start);
  if (at == nullptr || *at != VarintTag(xevent_field::kDurationPs)) return nullptr;
  at = ReadSpread(at + 1, &event->key.duration);
  if (at == nullptr || at > behind || behind > end) return nullptr;
  event->stats = std::string_view(at, static_cast<size_t>(behind - at));
  return behind;
}

inline const char* ReadEvent(const char* in, const char* end, EventView* event) {
  const char* behind = ReadUsualEvent(in, end, event);
  if (__builtin_expect(behind != nullptr, 1)) return behind;
  // A copy: `event` can stay in registers as long as no call gets its address.
  EventView read;
  behind = ReadEventSlow(in, end, &read);
  *event = read;
  return behind;
}

const char* ReadStartSlow(const char* in, const char* end, Spread* start);

// Reads the start of the event at `in`, which has been checked. Returns the byte after the event.
[[gnu::always_inline]] inline const char* ReadStart(const char* in, const char* end,
                                                    Spread* start) {
  constexpr int64_t kReach = 24;
  const auto size = static_cast<uint8_t>(in[1]);
  if (__builtin_expect(end - in >= kReach && size < 0x80, 1)) {
    uint64_t word;
    std::memcpy(&word, in + 3, sizeof(word));
    const uint64_t stops = ~word & 0x8080808080808080;
    if (__builtin_expect(
            stops != 0 && ReadSpread(in + 5 + (__builtin_ctzll(stops) >> 3), start) != nullptr,
            1)) {
      return in + 2 + size;
    }
  }
  return ReadStartSlow(in, end, start);
}

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_SEGMENT_EVENT_READER_H_
