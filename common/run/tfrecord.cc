// SPDX-License-Identifier: Apache-2.0
#include "common/run/tfrecord.h"

#include <array>
#include <cstring>

#include "protozero/pbf_writer.hpp"

namespace jobscope {
namespace {

// A table of one byte is fast enough: 256 bytes are summed per capture.
constexpr std::array<uint32_t, 256> MakeTable() {
  constexpr uint32_t kReversedPolynomial = 0x82f63b78;
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ ((value & 1) != 0 ? kReversedPolynomial : 0);
    }
    table[i] = value;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

// The format stores CRCs rotated and shifted, so that a CRC over data that contain CRCs stays
// useful.
uint32_t Masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

template <typename Integer>
void AppendLittleEndian(std::string* out, Integer value) {
  for (size_t i = 0; i < sizeof value; ++i) {
    out->push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  }
}

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  uint32_t crc = 0xffffffffu;
  for (const char c : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return ~crc;
}

std::string TfRecord(std::string_view data) {
  std::string record;
  AppendLittleEndian(&record, uint64_t{data.size()});
  AppendLittleEndian(&record, Masked(Crc32c(record)));
  record.append(data);
  AppendLittleEndian(&record, Masked(Crc32c(data)));
  return record;
}

std::string FileVersionRecord(absl::Time now) {
  // tensorflow.Event: 1 wall_time (double, seconds), 3 file_version.
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(1, absl::ToDoubleSeconds(now - absl::UnixEpoch()));
  writer.add_string(3, "brain.Event:2");
  return TfRecord(event);
}

}  // namespace jobscope
