// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/stats.h"

#include <cmath>
#include <cstddef>
#include <cstring>

#include "common/text/utf8.h"
#include "common/xspace/wire/fields.h"
#include "common/xspace/wire/wire.h"

namespace jobscope::xspace {

void StatsEncoder::Varint(uint64_t id, uint32_t field, uint64_t value) {
  if (id == 0) return;
  char* const at = Room(4 + 2 * kMaxVarintBytes);
  char* out = at + 2;  // after the tag and a length of at most 22
  *out++ = VarintTag(xstat_field::kMetadataId);
  out = WriteVarint(out, id);
  *out++ = VarintTag(field);
  out = WriteVarint(out, value);
  at[0] = BytesTag(static_cast<uint32_t>(container_));
  at[1] = static_cast<char>(out - at - 2);
  EndAt(out);
}

void StatsEncoder::Text(uint64_t id, uint32_t field, std::string_view value) {
  if (id == 0) return;
  const uint64_t content = 1 + VarintSize(id) + BytesFieldSize(value.size());
  char* out = Room(3 + 3 * kMaxVarintBytes + value.size());
  *out++ = BytesTag(static_cast<uint32_t>(container_));
  out = WriteVarint(out, content);
  *out++ = VarintTag(xstat_field::kMetadataId);
  out = WriteVarint(out, id);
  *out++ = BytesTag(field);
  out = WriteVarint(out, value.size());
  if (!value.empty()) std::memcpy(out, value.data(), value.size());
  EndAt(out + value.size());
}

void StatsEncoder::Encoded(std::string_view stats) {
  char* const out = Room(stats.size());
  if (!stats.empty()) std::memcpy(out, stats.data(), stats.size());
  EndAt(out + stats.size());
}

void StatsEncoder::Int64(uint64_t id, int64_t value) {
  Varint(id, xstat_field::kInt64, static_cast<uint64_t>(value));
}

void StatsEncoder::Uint64(uint64_t id, uint64_t value) { Varint(id, xstat_field::kUint64, value); }

void StatsEncoder::Ref(uint64_t id, uint64_t value_id) {
  if (value_id == 0) return;
  Varint(id, xstat_field::kRef, value_id);
}

void StatsEncoder::Double(uint64_t id, double value) {
  if (id == 0) return;
  // Viewers write numbers as JSON, which has none of these: the whole timeline would fail to load.
  if (!std::isfinite(value)) {
    return Text(id, xstat_field::kString, std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
  }
  char* out = Room(4 + kMaxVarintBytes + sizeof(value));
  *out++ = BytesTag(static_cast<uint32_t>(container_));
  *out++ = static_cast<char>(2 + VarintSize(id) + sizeof(value));
  *out++ = VarintTag(xstat_field::kMetadataId);
  out = WriteVarint(out, id);
  *out++ = Fixed64Tag(xstat_field::kDouble);
  std::memcpy(out, &value, sizeof(value));
  EndAt(out + sizeof(value));
}

void StatsEncoder::String(uint64_t id, std::string_view value) {
  std::string scratch;
  Text(id, xstat_field::kString, ToUtf8(value, &scratch));
}

void StatsEncoder::Bytes(uint64_t id, std::string_view value) {
  Text(id, xstat_field::kBytes, value);
}

}  // namespace jobscope::xspace
