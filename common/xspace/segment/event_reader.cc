// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/event_reader.h"

namespace jobscope::xspace {
namespace {

const char* ReadField(const char* in, const char* end, uint32_t field, Spread* spread) {
  if (in == end || *in != VarintTag(field)) return nullptr;
  uint64_t value = 0;
  in = ReadVarint(in + 1, end, &value);
  if (value >= kSpreadLimit) return nullptr;
  *spread = ToSpread(value);
  return in;
}

}  // namespace

const char* ReadEventSlow(const char* in, const char* end, EventView* event) {
  if (in == end || *in != BytesTag(xline_field::kEvents)) return nullptr;
  uint64_t size;
  const char* at = ReadVarint(in + 1, end, &size);
  // Protobuf allows lengths of at most five bytes.
  if (at == nullptr || at - in > 6 || size > static_cast<uint64_t>(end - at)) return nullptr;
  const char* const behind = at + size;
  at = ReadField(at, behind, xevent_field::kMetadataId, &event->metadata_id);
  if (at != nullptr) at = ReadField(at, behind, xevent_field::kOffsetPs, &event->key.start);
  if (at != nullptr) at = ReadField(at, behind, xevent_field::kDurationPs, &event->key.duration);
  if (at == nullptr) return nullptr;
  event->stats = std::string_view(at, static_cast<size_t>(behind - at));
  return behind;
}

const char* ReadStartSlow(const char* in, const char* end, Spread* start) {
  EventView event;
  const char* const behind = ReadEventSlow(in, end, &event);
  *start = event.key.start;
  return behind;
}

}  // namespace jobscope::xspace
