// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/event_reader.h"

namespace jobscope::xspace {
namespace {

const char* ReadField(const char* in, const char* end, uint32_t field, uint64_t* value) {
  if (in == end || *in != VarintTag(field)) return nullptr;
  return ReadVarint(in + 1, end, value);
}

}  // namespace

const char* ReadEventSlow(const char* in, const char* end, EventView* event) {
  if (in == end || *in != BytesTag(xline_field::kEvents)) return nullptr;
  uint64_t size;
  const char* at = ReadVarint(in + 1, end, &size);
  if (at == nullptr || size > static_cast<uint64_t>(end - at)) return nullptr;
  const char* const behind = at + size;
  uint64_t start;
  uint64_t duration;
  at = ReadField(at, behind, xevent_field::kMetadataId, &event->metadata_id);
  if (at != nullptr) at = ReadField(at, behind, xevent_field::kOffsetPs, &start);
  if (at != nullptr) at = ReadField(at, behind, xevent_field::kDurationPs, &duration);
  if (at == nullptr) return nullptr;
  event->start_ps = static_cast<int64_t>(start);
  event->duration_ps = static_cast<int64_t>(duration);
  event->stats = std::string_view(at, static_cast<size_t>(behind - at));
  return behind;
}

}  // namespace jobscope::xspace
