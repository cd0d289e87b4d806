// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/stats.h"

#include <cstddef>
#include <cstring>

#include "common/xspace/fields.h"
#include "common/xspace/utf8.h"
#include "common/xspace/wire.h"

namespace jobscope::xspace {

void StatsEncoder::Varint(uint64_t id, uint32_t field, uint64_t value) {
  if (id == 0) return;
  char encoded[2 + kMaxVarintBytes + 2 * kMaxVarintBytes];
  const size_t content = 2 + VarintSize(id) + VarintSize(value);
  char* out = encoded;
  *out++ = BytesTag(static_cast<uint32_t>(container_));
  *out++ = static_cast<char>(content);  // at most 22
  *out++ = VarintTag(xstat_field::kMetadataId);
  out = WriteVarint(out, id);
  *out++ = VarintTag(field);
  out = WriteVarint(out, value);
  buffer_.append(encoded, static_cast<size_t>(out - encoded));
}

void StatsEncoder::Text(uint64_t id, uint32_t field, std::string_view value) {
  if (id == 0) return;
  char encoded[3 + 3 * kMaxVarintBytes + 1];
  const uint64_t content = 1 + VarintSize(id) + BytesFieldSize(value.size());
  char* out = encoded;
  *out++ = BytesTag(static_cast<uint32_t>(container_));
  out = WriteVarint(out, content);
  *out++ = VarintTag(xstat_field::kMetadataId);
  out = WriteVarint(out, id);
  *out++ = BytesTag(field);
  out = WriteVarint(out, value.size());
  buffer_.append(encoded, static_cast<size_t>(out - encoded));
  buffer_.append(value.data(), value.size());
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
  char encoded[4 + kMaxVarintBytes + sizeof(value)];
  char* out = encoded;
  *out++ = BytesTag(static_cast<uint32_t>(container_));
  *out++ = static_cast<char>(2 + VarintSize(id) + sizeof(value));
  *out++ = VarintTag(xstat_field::kMetadataId);
  out = WriteVarint(out, id);
  *out++ = Fixed64Tag(xstat_field::kDouble);
  std::memcpy(out, &value, sizeof(value));
  out += sizeof(value);
  buffer_.append(encoded, static_cast<size_t>(out - encoded));
}

void StatsEncoder::String(uint64_t id, std::string_view value) {
  std::string scratch;
  Text(id, xstat_field::kString, ToUtf8(value, &scratch));
}

void StatsEncoder::Bytes(uint64_t id, std::string_view value) {
  Text(id, xstat_field::kBytes, value);
}

}  // namespace jobscope::xspace
